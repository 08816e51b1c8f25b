# The library, and everything that `make install` puts into place. The Makefile includes this file; paths are from the root.

# The soname is the thousands of S2_API_VERSION; what was appended since is the rest.
API     := $(shell sed -n 's/^.define S2_API_VERSION //p' library/s2.h)
SO      := $(shell echo $$(($(API) / 1000)))
MINOR   := $(shell echo $$(($(API) % 1000)))
L       := $(O)/library
# No database, no screens, no search, and no room reach, of which words/reach.c speaks. Debian's archives are inside, and hidden as our own names are.
LIBRARY_C := $(filter-out words/reach.c,$(foreach m,base pattern coverage words plan sim cache kernels export library,$(wildcard $(m)/*.c)))
LIBRARY_O := $(call obj,$(LIBRARY_C) $(LIB_CU) $(CU_INST)) $(O)/sim/texts.o
LIBS_OWN  := -l:libjansson.a -l:libyaml.a -l:libmd.a
LIBS_DEPS := -lm -pthread
# Debian's libstdc++.a is for programs; whoever has Python or torch has the shared one.
LIBS_SHARED = $(subst -l:libstdc++.a,-lstdc++,$(LIBS_CUDA))

##@ Install
## library: libs2.so and libs2.a, which export the names of library/exports.txt and no other
library: $(L)/libs2.so.$(SO) $(L)/libs2.a
$(L)/exports.map: library/exports.txt
	@mkdir -p $(@D)
	{ echo "S2_$(SO) { global:"; sed 's/$$/;/' $<; echo "local: *; };"; } > $@
# jansson compares a FILE with stdin, to give it a name, and Debian's archive does so as only a program may. We hand it no
# FILE; any address of ours stands for stdin there. Another libs2 in the process, of another version, is never called from this one.
$(L)/libs2.so.$(SO): $(LIBRARY_O) $(L)/exports.map $(O)/members library/library.mk
	$(CC) $(CFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(L)/exports.map -Wl,-z,defs -Wl,--defsym=stdin=s2_api_version \
	  -Wl,-Bsymbolic-functions -Wl,-z,relro,-z,now,-z,noexecstack \
	  $(filter %.o,$^) -o $@ $(LIBS_OWN) $(LIBS_DEPS) $(LIBS_SHARED)
# One object: what it does not export is local to it, so that a program may have a jansson of its own.
$(L)/libs2.a: $(LIBRARY_O) library/exports.txt $(O)/members
	$(CC) -r -nostdlib $(filter %.o,$^) -o $(L)/libs2.o $(LIBS_OWN)
	objcopy --keep-global-symbols=library/exports.txt $(L)/libs2.o
	rm -f $@ && ar rcs $@ $(L)/libs2.o

## man: manual pages, made from the table of options, under build/man/
man: $(B)/s2
	@rm -rf build/man && mkdir -p build/man/man1
	@$< help --man > build/man/man1/s2.1 && $< help --man s2check > build/man/man1/s2check.1
	@$< help --man s2cert > build/man/man1/s2cert.1
	@for c in $$($< help --list); do $< help --man $$c > build/man/man1/s2-$$c.1 || exit 1; done
	@echo "$$(ls build/man/man1 | wc -l) pages under build/man/man1"

## completion: completion of bash, zsh and fish, made from the same table, under build/completion/
completion: $(B)/s2
	@mkdir -p build/completion
	@$< help --completion bash > build/completion/s2 && $< help --completion zsh > build/completion/_s2
	@$< help --completion fish > build/completion/s2.fish
	@echo "build/completion/s2 (bash), build/completion/_s2 (zsh), build/completion/s2.fish"

PREFIX  ?= /usr/local
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR  := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
LIBDIR  := $(DESTDIR)$(PREFIX)/lib
MANDIR  := $(DESTDIR)$(PREFIX)/share/man/man1
SHARED  := $(wildcard adapters/*.py docs/examples/*.* docs/examples/plug/*.*)
SHAREDTO = $(DESTDIR)$(PREFIX)/share/s2/$(patsubst docs/%,%,$(1))
## install: programs, library, adapters, examples, manual pages and completion under PREFIX (/usr/local); DESTDIR for packagers
install: all man completion library
	install -d $(DESTDIR)$(PREFIX)/bin $(MANDIR) $(BASHDIR) $(ZSHDIR) $(FISHDIR)
	install -m 755 $(B)/s2 $(B)/s2check $(B)/s2cert $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/include && install -m 644 judge/s2_kernel_plug.h $(DESTDIR)$(PREFIX)/include
	install -m 644 library/s2.h $(DESTDIR)$(PREFIX)/include
	$(foreach file,$(SHARED),install -D -m 644 $(file) $(call SHAREDTO,$(file)) &&) :
	install -d $(LIBDIR)/pkgconfig && install -m 755 $(L)/libs2.so.$(SO) $(LIBDIR)
	install -m 644 $(L)/libs2.a $(LIBDIR) && ln -sf libs2.so.$(SO) $(LIBDIR)/libs2.so
	sed 's,@PREFIX@,$(PREFIX),; s,@VERSION@,$(SO).$(MINOR),; s,@PRIVATE@,$(LIBS_DEPS) $(LIBS_SHARED),' library/s2.pc.in > $(LIBDIR)/pkgconfig/s2.pc
	install -m 644 build/man/man1/*.1 $(MANDIR)
	install -m 644 build/completion/s2 $(BASHDIR)/s2
	ln -sf s2 $(BASHDIR)/s2check
	install -m 644 build/completion/_s2 $(ZSHDIR)/_s2
	install -m 644 build/completion/s2.fish $(FISHDIR)/s2.fish
	ln -sf s2.fish $(FISHDIR)/s2check.fish

## uninstall: what install put there
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,s2 s2check s2cert) $(addprefix $(DESTDIR)$(PREFIX)/include/,s2_kernel_plug.h s2.h) \
	    $(addprefix $(LIBDIR)/,libs2.so libs2.so.$(SO) libs2.a pkgconfig/s2.pc) $(MANDIR)/s2.1 $(MANDIR)/s2check.1 $(MANDIR)/s2cert.1 $(MANDIR)/s2-*.1 \
	    $(foreach file,$(SHARED),$(call SHAREDTO,$(file))) $(BASHDIR)/s2 $(BASHDIR)/s2check $(ZSHDIR)/_s2 $(FISHDIR)/s2.fish $(FISHDIR)/s2check.fish

## abi: rewrite tests/library/abi.txt after a change of s2.h; review the difference
abi:
	python3 tests/library/abi.py "$(CC)" library/s2.h > tests/library/abi.txt

# For every CPython from 3.10 on (its limited interface). Where Python.h is not, the package does the same without it, slower.
PYTHON   ?= python3
PYTHON_H  = $(shell $(PYTHON) -c 'import sys, sysconfig; print(sysconfig.get_path("include") if sys.implementation.name == "cpython" and \
              sys.version_info >= (3, 10) and not sysconfig.get_config_var("Py_GIL_DISABLED") else "")' 2>/dev/null)
$(L)/_again.abi3.so: python/again.c $(O)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -isystem $(PYTHON_H) -shared -Wl,-z,relro,-z,now,-z,noexecstack $< -o $@

.PHONY: library-path wheel-parts
library-path:
	@echo $(L)/libs2.so.$(SO)
wheel-parts: library
	@if test -e "$(PYTHON_H)/Python.h"; then $(MAKE) -s $(L)/_again.abi3.so; else rm -f $(L)/_again.abi3.so; fi

## wheel: the Python package with libs2 inside, under build/wheel/
wheel: wheel-parts
	@S2_WHEEL_LIBRARY=$(L)/libs2.so.$(SO) python3 python/backend.py build/wheel

## check-python: install the wheel into a scratch folder and test it (S2_PYTHON=FILE: with this interpreter, and the torch that it has)
check-python: wheel
	@tests/python/run.sh build/wheel

## bench-calls: what calls from Python cost the host, the kernel left out, on a CPU (S2_PYTHON=FILE: with torch; SITES="FOLDER FOLDER": packages that are compared; LIBRARY=FILE: with its kernels, on a GPU, beside C and torch)
bench-calls: $(if $(LIBRARY),,wheel)
ifdef LIBRARY
	$(or $(S2_PYTHON),python3) tests/bench/calls.py --library=$(LIBRARY) $(SITES)
else
	rm -rf $(O)/site && python3 -m zipfile -e "$$(ls -t build/wheel/*.whl | head -1)" $(O)/site
	$(or $(S2_PYTHON),python3) tests/bench/calls.py $(SITES) $(O)/site
endif

## bench-models: whole models with random weights on this machine's GPU, beside the prediction (S2_PYTHON=FILE: with torch)
bench-models: wheel
	rm -rf $(O)/site && python3 -m zipfile -e "$$(ls -t build/wheel/*.whl | head -1)" $(O)/site
	PYTHONPATH=$(O)/site $(or $(S2_PYTHON),python3) tests/bench/models.py $(O)/models.jsonl

## record-ranks: whole models over 2 and 4 GPUs of one host: heads dealt out, a sequence cut, a step of training (RANKS="2 4"; S2_PYTHON=FILE: with torch)
RANKS ?= 2 4
record-ranks: wheel
	rm -rf $(O)/site && python3 -m zipfile -e "$$(ls -t build/wheel/*.whl | head -1)" $(O)/site
	for n in $(RANKS); do PYTHONPATH=$(O)/site $(or $(S2_PYTHON),python3) tests/bench/models_ranks.py $(O)/models-ranks.jsonl --ranks $$n || exit 1; done
	@echo "rows: $(O)/models-ranks.jsonl (make table-models ROWS=FILE)"

## table-models: what bench-models wrote (ROWS=FILE; the recorded rows), beside what the simulator predicts (MODE=lead, each, ranks, shared, memory, context: a table of a page)
table-models: $(B)/s2
	@python3 tests/bench/models_table.py $(B)/s2 $(or $(ROWS),docs/results/h200-models.jsonl) $(MODE)

## check-library: install into a scratch folder, build a program outside of the tree with pkg-config, compare the ABI
check-library: all library
	@CC="$(CC)" CXX="$(CXX)" tests/library/run.sh "$(MAKE) BUILD=$(BUILD) CUDA=$(CUDA)" "$(L)/libs2.so.$(SO)"
