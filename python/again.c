/*
 * python/again.c - s2._again: a call like one before, without the interpreter in between.
 *
 * It does what torch_ops.again does, through two stable interfaces: the limited one of CPython, and DLPack's
 * exchange table, in which torch says where a tensor lies. Neither torch nor libs2 is linked; their functions
 * come as addresses. What it does not recognise it answers with None, and torch_ops looks at that.
 */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { DIMS = 4, TENSORS = 3, ON_CUDA = 2 };

/* ------------------------------------------------------------------ DLPack, version 1 */

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device;
    int32_t n_dims;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *extents, *strides;
    uint64_t offset;
} dl_tensor;

typedef struct dl_exchange {
    uint32_t major, minor;
    void *older;
    void (*allocate)(void), (*from_object)(void), (*to_object)(void); /* not called here */
    int (*look)(void *object, dl_tensor *out);
    int (*stream)(int device_type, int32_t device, void **out);
} dl_exchange;

static void *begin_of(const dl_tensor *tensor)
{
    return (uint8_t *)tensor->data + tensor->offset;
}

/* ------------------------------------------------------------------ what is known of a call */

/* What tensors must have in common with the ones that were checked, but for what `guard` looks at. */
typedef struct form {
    PyTypeObject *type;
    int32_t device_type, device, n_dims;
    int64_t extents[DIMS], strides[DIMS];
} form;

typedef int (*run_fn)(void *plan, void *call, void *why);

typedef struct prepared {
    form forms[TENSORS];
    PyObject *held; /* whose members the next three lines are */
    PyObject *scale, *phase, *deterministic, *softcap, *stream, *captures, *device, *enter, *guard;
    PyObject *grads; /* None: it does not matter whether gradients are on */
    PyObject *room, *shape, *lse_room, *lse_shape;
    PyObject *spare; /* NULL, or an lse that nobody asked for: the next call on the stream writes it again */
    dl_tensor spare_seen;
    int may_spare;
    run_fn run;
    void *plan, *why;
    int64_t *words;          /* the call */
    int places[TENSORS + 2]; /* where in it the addresses of q, k, v, lse and o go */
} prepared;

static const char NAME[] = "s2.prepared";

/* Of the process: what use() was given. */
static const dl_exchange *exchange;
static PyObject *forward_ad, *is_grad_enabled, *is_capturing;
static PyObject *word_level, *word_stream, *word_prepared;

static void forget(PyObject *capsule)
{
    prepared *const known = PyCapsule_GetPointer(capsule, NAME);
    Py_XDECREF(known->held);
    Py_XDECREF(known->spare);
    PyMem_Free(known);
}

static bool read_form(PyObject *tensor, form *out)
{
    dl_tensor seen;
    if (exchange->look(tensor, &seen) != 0 || seen.n_dims > DIMS)
        return false;
    *out = (form){.type = Py_TYPE(tensor),
                  .device_type = seen.device_type,
                  .device = seen.device,
                  .n_dims = seen.n_dims};
    memcpy(out->extents, seen.extents, (size_t)seen.n_dims * sizeof(int64_t));
    memcpy(out->strides, seen.strides, (size_t)seen.n_dims * sizeof(int64_t));
    return true;
}

static bool read_forms(PyObject *const *tensors, form *out)
{
    bool all = true;
    for (int nth = 0; nth < TENSORS && all; nth++)
        all = read_form(tensors[nth], &out[nth]);
    PyErr_Clear();
    return all;
}

/* prepare(tensors, held, addresses, places, may_spare): what again() takes as `prepared` of one that is known. */
static PyObject *prepare(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *tensors[TENSORS];
    unsigned long long words, plan, why, run;
    prepared own = {0};
    int *const places = own.places;
    if (!PyArg_ParseTuple(args, "(OOO)O!(KKKK)(iiiii)p", &tensors[0], &tensors[1], &tensors[2], &PyTuple_Type,
                          &own.held, &words, &plan, &why, &run, &places[0], &places[1], &places[2],
                          &places[3], &places[4], &own.may_spare) ||
        !PyArg_ParseTuple(own.held, "OOOOOOOOOOOOOO", &own.scale, &own.phase, &own.deterministic,
                          &own.softcap, &own.stream, &own.captures, &own.device, &own.enter, &own.guard,
                          &own.grads, &own.room, &own.shape, &own.lse_room, &own.lse_shape))
        return NULL;
    if (!read_forms(tensors, own.forms))
        Py_RETURN_NONE;
    own.words = (int64_t *)(uintptr_t)words;
    own.plan = (void *)(uintptr_t)plan;
    own.why = (void *)(uintptr_t)why;
    own.run = (run_fn)(uintptr_t)run;
    prepared *const known = PyMem_Malloc(sizeof *known);
    if (known == NULL)
        return PyErr_NoMemory();
    *known = own;
    Py_INCREF(known->held);
    PyObject *const capsule = PyCapsule_New(known, NAME, forget);
    if (capsule == NULL) {
        Py_DECREF(known->held);
        PyMem_Free(known);
    }
    return capsule;
}

/* ------------------------------------------------------------------ the call */

/* known, q, k, v, scale, phase, deterministic, return_lse, softcap */
enum { KNOWN, Q, SCALE = Q + TENSORS, PHASE, DETERMINISTIC, RETURN_LSE, SOFTCAP, ARGUMENTS };

static bool same_form(const form *wanted, PyObject *tensor, dl_tensor *seen)
{
    if (Py_TYPE(tensor) != wanted->type || exchange->look(tensor, seen) != 0)
        return false; /* the latter of a nested tensor, at which a guard's look ends the process */
    const size_t bytes = (size_t)wanted->n_dims * sizeof(int64_t);
    return seen->n_dims == wanted->n_dims && seen->device_type == wanted->device_type &&
           seen->device == wanted->device && memcmp(seen->extents, wanted->extents, bytes) == 0 &&
           memcmp(seen->strides, wanted->strides, bytes) == 0;
}

/* The same number or none; what equals a number and is none is checked, and refused, at each call. */
static bool same_number(PyObject *wanted, PyObject *given)
{
    return wanted == given || (Py_TYPE(given) == &PyFloat_Type && Py_TYPE(wanted) == &PyFloat_Type &&
                               PyObject_RichCompareBool(wanted, given, Py_EQ) == 1);
}

static bool same_options(const prepared *known, PyObject *const *args)
{
    return known->deterministic == args[DETERMINISTIC] && Py_TYPE(args[RETURN_LSE]) == &PyBool_Type &&
           (known->phase == args[PHASE] ||
            (Py_TYPE(args[PHASE]) == &PyUnicode_Type && PyUnicode_Compare(known->phase, args[PHASE]) == 0)) &&
           same_number(known->scale, args[SCALE]) && same_number(known->softcap, args[SOFTCAP]);
}

/* Whether a call gave this object, of which there is one. */
static bool is_given(PyObject *wanted, PyObject *given)
{
    Py_XDECREF(given);
    return given == wanted;
}

static bool same_stream(const prepared *known)
{
    void *now = NULL;
    const form *const first = &known->forms[0];
    if (first->device_type != ON_CUDA)
        return true;
    return exchange->stream(ON_CUDA, first->device, &now) == 0 &&
           (uintptr_t)now == (uintptr_t)PyLong_AsUnsignedLongLong(known->stream) &&
           (now == NULL ||
            is_given(known->captures,
                     PyObject_CallNoArgs(is_capturing))); /* the default stream is never captured */
}

static bool passes_guard(const prepared *known, PyObject *const *args)
{
    return (known->grads == Py_None || is_given(known->grads, PyObject_CallNoArgs(is_grad_enabled))) &&
           is_given(Py_True,
                    PyObject_CallFunctionObjArgs(known->guard, args[Q], args[Q + 1], args[Q + 2], NULL));
}

static bool recognises(const prepared *known, PyObject *const *args, dl_tensor *seen)
{
    bool same = true;
    for (int nth = 0; nth < TENSORS && same; nth++)
        same = same_form(&known->forms[nth], args[Q + nth], &seen[nth]);
    return same && same_options(known, args) && same_stream(known) && passes_guard(known, args);
}

/* false: it is elsewhere, since another device is the current one */
static bool find(const prepared *known, PyObject *tensor, dl_tensor *out)
{
    const bool found = exchange->look(tensor, out) == 0 && out->device == known->forms[0].device;
    PyErr_Clear();
    return found;
}

/* What the device is given from now on is queued on the call's stream. */
static bool enter(const prepared *known)
{
    PyObject *const told = PyObject_GetAttr(known->device, word_stream);
    const int same = told == NULL ? -1 : PyObject_RichCompareBool(told, known->stream, Py_EQ);
    Py_XDECREF(told);
    if (same != 0)
        return same > 0;
    PyObject *const done = PyObject_CallNoArgs(known->enter);
    Py_XDECREF(done);
    return done != NULL;
}

/* seen: q, k, v, lse and o */
static int run(const prepared *known, const dl_tensor *seen)
{
    for (int nth = 0; nth < TENSORS + 2; nth++)
        known->words[known->places[nth]] = (int64_t)(uintptr_t)begin_of(&seen[nth]);
    PyThreadState *const state = PyEval_SaveThread();
    const int code = known->run(known->plan, known->words, known->why);
    PyEval_RestoreThread(state);
    return code;
}

/* A new lse, or the spare one where nobody asks for it. NULL: an exception is set. */
static PyObject *lse_of(const prepared *known, bool asked)
{
    if (asked || known->spare == NULL)
        return PyObject_Call(known->lse_room, known->lse_shape, NULL);
    Py_INCREF(known->spare);
    return known->spare;
}

static void keep_spare(prepared *known, PyObject *lse, const dl_tensor *seen)
{
    if (!known->may_spare || known->spare != NULL)
        return;
    Py_INCREF(lse);
    known->spare = lse;
    known->spare_seen = *seen;
}

/* seen: q, k and v; lse and o are filled in. None: those are elsewhere. */
static PyObject *call(prepared *known, PyObject *one, PyObject *const *args, dl_tensor *seen, PyObject *lse,
                      PyObject *o)
{
    const bool asked = args[RETURN_LSE] == Py_True;
    if (lse == known->spare)
        seen[TENSORS] = known->spare_seen;
    else if (!find(known, lse, &seen[TENSORS]))
        Py_RETURN_NONE;
    if (!find(known, o, &seen[TENSORS + 1]))
        Py_RETURN_NONE;
    if (!asked)
        keep_spare(known, lse, &seen[TENSORS]);
    const int code = run(known, seen);
    if (code != 0)
        return PyObject_CallMethod(one, "fail", "iOOO", code, args[Q], args[Q + 1], args[Q + 2]);
    if (asked)
        return PyTuple_Pack(2, o, lse);
    Py_INCREF(o);
    return o;
}

static PyObject *answer(prepared *known, PyObject *one, PyObject *const *args, dl_tensor *seen)
{
    PyObject *made = NULL, *const o = PyObject_Call(known->room, known->shape, NULL);
    if (o == NULL)
        return NULL;
    PyObject *const lse = enter(known) ? lse_of(known, args[RETURN_LSE] == Py_True) : NULL;
    if (lse != NULL)
        made = call(known, one, args, seen, lse, o);
    Py_XDECREF(lse);
    Py_DECREF(o);
    return made;
}

static PyObject *try_one(PyObject *one, PyObject *const *args)
{
    PyObject *made = Py_None;
    dl_tensor seen[TENSORS + 2];
    Py_INCREF(one);
    PyObject *const capsule = PyObject_GetAttr(one, word_prepared);
    prepared *const known = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NAME);
    if (known != NULL && recognises(known, args, seen))
        made = answer(known, one, args, seen);
    else {
        PyErr_Clear();
        Py_INCREF(made);
    }
    Py_DECREF(one);
    Py_XDECREF(capsule);
    return made;
}

/* Gradients in forward mode are asked for. */
static bool is_forward_mode(void)
{
    PyObject *const level = PyDict_GetItemWithError(forward_ad, word_level);
    return level == NULL || PyLong_AsLong(level) >= 0;
}

/* The next call is likely to be like this one. */
static void move_to_front(PyObject *known, Py_ssize_t nth)
{
    PyObject *const one = PyList_GetItem(known, nth);
    Py_XINCREF(one);
    if (one == NULL || PyList_SetSlice(known, nth, nth + 1, NULL) != 0 || PyList_Insert(known, 0, one) != 0)
        PyErr_Clear();
    Py_XDECREF(one);
}

/* again(known, q, k, v, scale, phase, deterministic, return_lse, softcap): as torch_ops.again. */
static PyObject *again(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != ARGUMENTS || !PyList_Check(args[KNOWN]) || is_forward_mode())
        Py_RETURN_NONE;
    for (Py_ssize_t nth = 0; nth < PyList_Size(args[KNOWN]); nth++) {
        PyObject *const made = try_one(PyList_GetItem(args[KNOWN], nth), args);
        if (made != NULL && made != Py_None && nth > 0)
            move_to_front(args[KNOWN], nth);
        if (made != Py_None)
            return made;
        Py_DECREF(made);
    }
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ the module */

/* use(exchange, names of forward_ad, is_grad_enabled, is_capturing): whether torch's exchange table is of a
 * version that we know. */
static PyObject *use(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    if (!PyArg_ParseTuple(args, "OOOO", &capsule, &forward_ad, &is_grad_enabled, &is_capturing))
        return NULL;
    const dl_exchange *const table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (table == NULL)
        return NULL;
    if (table->major != 1 || table->look == NULL || table->stream == NULL)
        Py_RETURN_FALSE;
    exchange = table;
    Py_INCREF(forward_ad);
    Py_INCREF(is_grad_enabled);
    Py_INCREF(is_capturing);
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {{"use", use, METH_VARARGS, NULL},
                                  {"prepare", prepare, METH_VARARGS, NULL},
                                  {"again", (PyCFunction)(void (*)(void))again, METH_FASTCALL, NULL},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "s2._again", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__again(void); /* Python finds it by its name */
PyMODINIT_FUNC PyInit__again(void)
{
    word_level = PyUnicode_InternFromString("_current_level");
    word_stream = PyUnicode_InternFromString("stream");
    word_prepared = PyUnicode_InternFromString("prepared");
    if (word_level == NULL || word_stream == NULL || word_prepared == NULL)
        return NULL;
    return PyModule_Create(&definition);
}
