/*
 * python/again.c - s2._again: a call like one before, without the interpreter in between.
 *
 * It does what torch_ops.again and torch_ops.gradients_again do, through two stable interfaces: the limited one of
 * CPython, and DLPack's exchange table, in which torch says where a tensor lies. Neither torch nor libs2 is linked;
 * their functions come as addresses. What it does not recognise it answers with None, and torch_ops looks at that.
 */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Tensors that a forward is given, and a backward; what a backward makes, with its empty gradient of sinks. */
enum { FORWARD = 3, BACKWARD = 6, MADE = 4, DIMS = 4, ON_CUDA = 2 };

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
    int n_given; /* FORWARD: q, k, v, of which o and lse are made; BACKWARD: d_o, q, k, v, o, lse */
    form forms[BACKWARD];
    PyObject *held; /* whose members are the objects that follow */
    PyObject *stream, *captures, *device, *enter, *guard;
    PyObject *grads; /* None: it does not matter whether gradients are on */
    PyObject *scale, *phase, *deterministic, *softcap;
    PyObject *rest; /* of a backward, in place of the former four: all that is no tensor */
    PyObject *
        apply; /* None; or of a forward whose gradients are wanted, what answers in place of a call of the library */
    PyObject *rooms[MADE], *shapes[MADE];
    PyObject *spare; /* NULL, or an lse that nobody asked for: the next call on the stream writes it again */
    dl_tensor spare_seen;
    int may_spare;
    run_fn run;
    void *plan, *why;
    int64_t *words;              /* the call */
    int places[BACKWARD + MADE]; /* where in it the addresses go, of what is given and of what is made */
} prepared;

static const char NAME[] = "s2.prepared";

/* Of the process: what use() was given. */
static const dl_exchange *exchange;
static PyObject *forward_ad, *profiler, *is_grad_enabled, *is_capturing, *n_modes, *n_function_modes;
static PyObject *word_level, *word_profiles, *word_stream, *word_prepared, *word_again, *word_backward;
static PyObject *word_options[3]; /* names of the operators' arguments that have defaults */

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

static bool read_forms(PyObject *tensors, int n, form *out)
{
    bool all = true;
    for (int nth = 0; nth < n && all; nth++)
        all = read_form(PyTuple_GetItem(tensors, nth), &out[nth]);
    PyErr_Clear();
    return all;
}

/* Where addresses go, and the functions that allocate, each with its arguments. */
static bool read_places(prepared *own, PyObject *places, PyObject *rooms)
{
    for (Py_ssize_t nth = 0; nth < PyTuple_Size(places) && nth < BACKWARD + MADE; nth++)
        own->places[nth] = (int)PyLong_AsLong(PyTuple_GetItem(places, nth));
    for (Py_ssize_t nth = 0; nth < PyTuple_Size(rooms) / 2 && nth < MADE; nth++) {
        own->rooms[nth] = PyTuple_GetItem(rooms, 2 * nth);
        own->shapes[nth] = PyTuple_GetItem(rooms, 2 * nth + 1);
    }
    return PyErr_Occurred() == NULL;
}

static bool read_held(prepared *own)
{
    PyObject *rooms, *places;
    return PyArg_ParseTuple(own->held, "OOOOOO(OOOO)OOO!O!", &own->stream, &own->captures, &own->device,
                            &own->enter, &own->guard, &own->grads, &own->scale, &own->phase,
                            &own->deterministic, &own->softcap, &own->rest, &own->apply, &PyTuple_Type,
                            &places, &PyTuple_Type, &rooms) != 0 &&
           read_places(own, places, rooms);
}

/* prepare(tensors, held, addresses, may_spare): what again() takes as `prepared` of one that is known. */
static PyObject *prepare(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *tensors;
    unsigned long long words, plan, why, run;
    prepared own = {0};
    if (!PyArg_ParseTuple(args, "O!O!(KKKK)p", &PyTuple_Type, &tensors, &PyTuple_Type, &own.held, &words,
                          &plan, &why, &run, &own.may_spare) ||
        !read_held(&own))
        return NULL;
    own.n_given = PyTuple_Size(tensors) == BACKWARD ? BACKWARD : FORWARD;
    if (!read_forms(tensors, own.n_given, own.forms))
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

/* Of a forward: known, q, k, v, scale, phase, deterministic, return_lse, softcap.
 * Of a backward: known, its tensors, rest, whole. */
enum { KNOWN, GIVEN, SCALE = GIVEN + FORWARD, PHASE, DETERMINISTIC, RETURN_LSE, SOFTCAP, ARGUMENTS };
enum { REST = GIVEN + BACKWARD, WHOLE, ARGUMENTS_BACKWARD };

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
    if (known->n_given == BACKWARD)
        return PyObject_RichCompareBool(known->rest, args[REST], Py_EQ) == 1;
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
    if (first->device_type != ON_CUDA || known->apply != Py_None)
        return true;
    return exchange->stream(ON_CUDA, first->device, &now) == 0 &&
           (uintptr_t)now == (uintptr_t)PyLong_AsUnsignedLongLong(known->stream) &&
           (now == NULL ||
            is_given(known->captures,
                     PyObject_CallNoArgs(is_capturing))); /* the default stream is never captured */
}

static bool passes_guard(const prepared *known, PyObject *const *args)
{
    PyObject *const *const given = args + GIVEN, *const guard = known->guard;
    if (known->grads != Py_None && !is_given(known->grads, PyObject_CallNoArgs(is_grad_enabled)))
        return false;
    PyObject *const said = known->n_given == FORWARD
                               ? PyObject_CallFunctionObjArgs(guard, given[0], given[1], given[2], NULL)
                               : PyObject_CallFunctionObjArgs(guard, given[0], given[1], given[2], given[3],
                                                              given[4], given[5], NULL);
    return is_given(Py_True, said);
}

/* The library takes addresses that are multiples of 16, and a backward's caller mends those that are not. */
static bool is_aligned(const prepared *known, const dl_tensor *seen)
{
    uintptr_t every = 0;
    for (int nth = 0; nth < known->n_given; nth++)
        every |= (uintptr_t)begin_of(&seen[nth]);
    return known->n_given == FORWARD || every % 16 == 0;
}

static bool recognises(const prepared *known, PyObject *const *args, dl_tensor *seen)
{
    bool same = true;
    for (int nth = 0; nth < known->n_given && same; nth++)
        same = same_form(&known->forms[nth], args[GIVEN + nth], &seen[nth]);
    return same && is_aligned(known, seen) && same_options(known, args) && same_stream(known) &&
           passes_guard(known, args);
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

/* seen: what is given, then what is made */
static int run(const prepared *known, const dl_tensor *seen, int n_made)
{
    for (int nth = 0; nth < known->n_given + n_made; nth++)
        known->words[known->places[nth]] = (int64_t)(uintptr_t)begin_of(&seen[nth]);
    PyThreadState *const state = PyEval_SaveThread();
    const int code = known->run(known->plan, known->words, known->why);
    PyEval_RestoreThread(state);
    return code;
}

static PyObject *room(const prepared *known, int nth)
{
    return PyObject_Call(known->rooms[nth], known->shapes[nth], NULL);
}

/* A new lse, or the spare one where nobody asks for it. NULL: an exception is set. */
static PyObject *lse_of(const prepared *known, bool asked)
{
    if (asked || known->spare == NULL)
        return room(known, 1);
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

/* seen: q, k and v; o and lse are filled in. None: those are elsewhere. */
static PyObject *call(prepared *known, PyObject *one, PyObject *const *args, dl_tensor *seen, PyObject *lse,
                      PyObject *o)
{
    const bool asked = args[RETURN_LSE] == Py_True;
    dl_tensor *const seen_o = &seen[FORWARD], *const seen_lse = seen_o + 1;
    if (lse == known->spare)
        *seen_lse = known->spare_seen;
    else if (!find(known, lse, seen_lse))
        Py_RETURN_NONE;
    if (!find(known, o, seen_o))
        Py_RETURN_NONE;
    if (!asked)
        keep_spare(known, lse, seen_lse);
    const int code = run(known, seen, 2);
    if (code != 0)
        return PyObject_CallMethod(one, "fail", "iOOO", code, args[GIVEN], args[GIVEN + 1], args[GIVEN + 2]);
    if (asked)
        return PyTuple_Pack(2, o, lse);
    Py_INCREF(o);
    return o;
}

static PyObject *answer(prepared *known, PyObject *one, PyObject *const *args, dl_tensor *seen)
{
    if (known->apply != Py_None)
        return PyObject_CallFunctionObjArgs(known->apply, args[GIVEN], args[GIVEN + 1], args[GIVEN + 2],
                                            Py_None, known->rest, args[RETURN_LSE], NULL);
    PyObject *made = NULL, *const o = room(known, 0);
    if (o == NULL)
        return NULL;
    PyObject *const lse = enter(known) ? lse_of(known, args[RETURN_LSE] == Py_True) : NULL;
    if (lse != NULL)
        made = call(known, one, args, seen, lse, o);
    Py_XDECREF(lse);
    Py_DECREF(o);
    return made;
}

/* The tuple, whose tensors were written. None: they are elsewhere. */
static PyObject *run_backward(const prepared *known, PyObject *one, dl_tensor *seen, PyObject *made)
{
    enum { WRITTEN = MADE - 1 };
    for (int nth = 0; nth < WRITTEN; nth++)
        if (!find(known, PyTuple_GetItem(made, nth), &seen[BACKWARD + nth]))
            Py_RETURN_NONE;
    const int code = run(known, seen, WRITTEN);
    if (code != 0)
        return PyObject_CallMethod(one, "fail", "i", code);
    Py_INCREF(made);
    return made;
}

/* d_q, d_k, d_v and, of the whole, the empty gradient of no sinks. */
static PyObject *answer_backward(const prepared *known, PyObject *one, PyObject *const *args, dl_tensor *seen)
{
    const int n_made = args[WHOLE] == Py_True ? MADE : MADE - 1;
    PyObject *const made = PyTuple_New(n_made);
    bool all = made != NULL && enter(known);
    for (int nth = 0; nth < n_made && all; nth++) {
        PyObject *const gradient = room(known, nth);
        all = gradient != NULL && PyTuple_SetItem(made, nth, gradient) == 0;
    }
    PyObject *const told = all ? run_backward(known, one, seen, made) : NULL;
    Py_XDECREF(made);
    return told;
}

static PyObject *try_one(PyObject *one, PyObject *const *args)
{
    PyObject *made = Py_None;
    dl_tensor seen[BACKWARD + MADE];
    Py_INCREF(one);
    PyObject *const capsule = PyObject_GetAttr(one, word_prepared);
    prepared *const known = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NAME);
    if (known != NULL && recognises(known, args, seen))
        made = known->n_given == FORWARD ? answer(known, one, args, seen)
                                         : answer_backward(known, one, args, seen);
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

/* What the first of the known that recognises the call answers; None: there is none. */
static PyObject *first_answer(PyObject *const *args)
{
    if (!PyList_Check(args[KNOWN]) || is_forward_mode())
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

/* again(known, q, k, v, scale, phase, deterministic, return_lse, softcap): as torch_ops.again. */
static PyObject *again(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n != ARGUMENTS)
        Py_RETURN_NONE;
    return first_answer(args);
}

/* gradients_again(known, d_o, q, k, v, o, lse, rest): as torch_ops.gradients_again. */
static PyObject *gradients_again(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    PyObject *all[ARGUMENTS_BACKWARD] = {[WHOLE] = Py_False};
    if (n != WHOLE)
        Py_RETURN_NONE;
    memcpy(all, args, WHOLE * sizeof *all);
    return first_answer(all);
}

/* ------------------------------------------------------------------ the operators, as compiled code calls them */

/* What follows the tensors; the last three have defaults. */
enum { NUMBER, LAYER, OP_SCALE, OP_PHASE, BEGINS_Q, BEGINS_K, OP_DETERMINISTIC, OP_SOFTCAP, OP_SINKS, AFTER };

static bool is_zero(PyObject *number)
{
    const bool zero = number != NULL && PyLong_AsLong(number) == 0;
    Py_XDECREF(number);
    return zero;
}

/* By a mode or a profiler, which guards do not see. */
static bool is_watched(void)
{
    const bool seen = PyDict_GetItemWithError(profiler, word_profiles) != Py_False ||
                      !is_zero(PyObject_CallNoArgs(n_modes)) ||
                      !is_zero(PyObject_CallNoArgs(n_function_modes));
    PyErr_Clear();
    return seen;
}

/* Those with defaults that are not among the first n; inductor gives them by name. false: there are others, or one is
 * given twice. */
static bool read_named(PyObject *named, Py_ssize_t n, PyObject **out)
{
    Py_ssize_t left = named == NULL ? 0 : PyDict_Size(named);
    for (Py_ssize_t nth = n; nth < AFTER && left > 0; nth++) {
        PyObject *const one = PyDict_GetItemWithError(named, word_options[nth - OP_DETERMINISTIC]);
        if (one == NULL)
            continue;
        out[nth] = one;
        left--;
    }
    return left == 0;
}

/* The arguments after the tensors, where no option is given that is always checked. */
static bool read_after(PyObject *given, PyObject *named, int n_tensors, PyObject **out)
{
    const Py_ssize_t n = PyTuple_Size(given) - n_tensors;
    if (n < OP_DETERMINISTIC || n > AFTER)
        return false;
    out[OP_DETERMINISTIC] = Py_True;
    out[OP_SOFTCAP] = out[OP_SINKS] = Py_None;
    for (Py_ssize_t nth = 0; nth < n; nth++)
        out[nth] = PyTuple_GetItem(given, n_tensors + nth);
    return read_named(named, n, out) && Py_TYPE(out[NUMBER]) == &PyLong_Type &&
           Py_TYPE(out[LAYER]) == &PyLong_Type && out[BEGINS_Q] == Py_None && out[BEGINS_K] == Py_None &&
           out[OP_SINKS] == Py_None;
}

/* What this thread knows of calls of the pattern's layer, or NULL. */
static PyObject *known_of(PyObject *kept, PyObject *key)
{
    PyObject *const every = PyObject_GetAttr(kept, word_again);
    PyObject *const known = every == NULL || key == NULL ? NULL : PyDict_GetItemWithError(every, key);
    Py_XINCREF(known); /* others may forget it while it is looked at */
    Py_XDECREF(every);
    Py_XDECREF(key);
    return known;
}

static PyObject *attention_of(PyObject *kept, PyObject *given, PyObject *const *after, PyObject *return_lse)
{
    PyObject *args[ARGUMENTS] = {known_of(kept, PyTuple_Pack(2, after[NUMBER], after[LAYER]))};
    if (args[KNOWN] == NULL)
        return NULL;
    for (int nth = 0; nth < FORWARD; nth++)
        args[GIVEN + nth] = PyTuple_GetItem(given, nth);
    args[SCALE] = after[OP_SCALE];
    args[PHASE] = after[OP_PHASE];
    args[DETERMINISTIC] = after[OP_DETERMINISTIC];
    args[RETURN_LSE] = return_lse;
    args[SOFTCAP] = after[OP_SOFTCAP];
    PyObject *const made = first_answer(args);
    Py_DECREF(args[KNOWN]);
    return made;
}

static PyObject *gradients_of(PyObject *kept, PyObject *given, PyObject *const *after)
{
    PyObject *args[ARGUMENTS_BACKWARD] = {
        known_of(kept, PyTuple_Pack(3, after[NUMBER], after[LAYER], word_backward))};
    if (args[KNOWN] == NULL)
        return NULL;
    for (int nth = 0; nth < BACKWARD; nth++)
        args[GIVEN + nth] = PyTuple_GetItem(given, nth);
    args[REST] = PyTuple_Pack(OP_SINKS, after[NUMBER], after[LAYER], after[OP_SCALE], after[OP_PHASE],
                              after[BEGINS_Q], after[BEGINS_K], after[OP_DETERMINISTIC], after[OP_SOFTCAP]);
    args[WHOLE] = Py_True;
    PyObject *const made = args[REST] == NULL ? NULL : first_answer(args);
    Py_XDECREF(args[REST]);
    Py_DECREF(args[KNOWN]);
    return made;
}

/* self: what each thread keeps, and what answers all that is not recognised. */
static PyObject *operate(PyObject *self, PyObject *given, PyObject *named, int n_tensors,
                         PyObject *return_lse)
{
    PyObject *const kept = PyTuple_GetItem(self, 0), *const otherwise = PyTuple_GetItem(self, 1);
    PyObject *after[AFTER], *made = NULL;
    if (read_after(given, named, n_tensors, after) && !is_watched())
        made = n_tensors == FORWARD ? attention_of(kept, given, after, return_lse)
                                    : gradients_of(kept, given, after);
    if ((made != NULL && made != Py_None) || PyErr_Occurred() != NULL)
        return made;
    Py_XDECREF(made);
    return PyObject_Call(otherwise, given, named);
}

static PyObject *attention(PyObject *self, PyObject *given, PyObject *named)
{
    return operate(self, given, named, FORWARD, Py_True);
}

static PyObject *attention_output(PyObject *self, PyObject *given, PyObject *named)
{
    return operate(self, given, named, FORWARD, Py_False);
}

static PyObject *attention_backward(PyObject *self, PyObject *given, PyObject *named)
{
    return operate(self, given, named, BACKWARD, Py_True);
}

static PyMethodDef operators[] = {
    {"attention", (PyCFunction)(void (*)(void))attention, METH_VARARGS | METH_KEYWORDS, NULL},
    {"attention_backward", (PyCFunction)(void (*)(void))attention_backward, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {"attention_output", (PyCFunction)(void (*)(void))attention_output, METH_VARARGS | METH_KEYWORDS, NULL}};

/* operator(kept, otherwise, which): a function that takes what that operator of torch.ops.s2 takes. */
static PyObject *make_operator(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *kept, *otherwise;
    int which;
    if (!PyArg_ParseTuple(args, "OOi", &kept, &otherwise, &which))
        return NULL;
    PyObject *const self = PyTuple_Pack(2, kept, otherwise);
    PyObject *const made = self == NULL ? NULL : PyCFunction_New(&operators[which], self);
    Py_XDECREF(self);
    return made;
}

/* ------------------------------------------------------------------ the module */

/* use(exchange, names of forward_ad and of the profiler, four functions of torch): whether torch's exchange table
 * is of a version that we know. */
static PyObject *use(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    if (!PyArg_ParseTuple(args, "OO!O!OOOO", &capsule, &PyDict_Type, &forward_ad, &PyDict_Type, &profiler,
                          &is_grad_enabled, &is_capturing, &n_modes, &n_function_modes))
        return NULL;
    const dl_exchange *const table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (table == NULL)
        return NULL;
    if (table->major != 1 || table->look == NULL || table->stream == NULL)
        Py_RETURN_FALSE;
    exchange = table;
    Py_INCREF(forward_ad);
    Py_INCREF(profiler);
    Py_INCREF(is_grad_enabled);
    Py_INCREF(is_capturing);
    Py_INCREF(n_modes);
    Py_INCREF(n_function_modes);
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"use", use, METH_VARARGS, NULL},
    {"prepare", prepare, METH_VARARGS, NULL},
    {"again", (PyCFunction)(void (*)(void))again, METH_FASTCALL, NULL},
    {"gradients_again", (PyCFunction)(void (*)(void))gradients_again, METH_FASTCALL, NULL},
    {"operator", make_operator, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "s2._again", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__again(void); /* Python finds it by its name */
PyMODINIT_FUNC PyInit__again(void)
{
    static const struct {
        PyObject **word;
        const char *text;
    } WORDS[] = {{&word_level, "_current_level"},
                 {&word_profiles, "_is_profiler_enabled"},
                 {&word_stream, "stream"},
                 {&word_prepared, "prepared"},
                 {&word_again, "again"},
                 {&word_backward, "backward"},
                 {&word_options[0], "deterministic"},
                 {&word_options[1], "softcap"},
                 {&word_options[2], "sinks"}};
    for (size_t nth = 0; nth < sizeof WORDS / sizeof *WORDS; nth++)
        if ((*WORDS[nth].word = PyUnicode_InternFromString(WORDS[nth].text)) == NULL)
            return NULL;
    return PyModule_Create(&definition);
}
