# How the programs that test and measure are linked: what each needs beside the library, and those that are linked with less.
# The Makefile includes this file; paths are from the root.

$(B)/tests/test_cli: | $(B)/s2 $(B)/s2check $(B)/s2cert
# The terminal emulator that reads the screens of tests/test_tui_pty.c back.
$(B)/tests/test_tui_pty: LIBS += -lvterm -lutil
$(B)/tests/test_tui_pty: $(call obj,tests/console.c) | $(B)/s2
# These tests stand between the database, or a file, and the disk.
$(B)/tests/test_power: LIBS += $(patsubst %,-Wl$(comma)--wrap=%,open open64 close write pwrite64 ftruncate64 fsync fdatasync link rename renameat2 unlink)
$(B)/tests/test_disk: LIBS += $(patsubst %,-Wl$(comma)--wrap=%,open open64 write pwrite64 ftruncate64 fsync fdatasync link linkat rename renameat2 mmap64)
# Every piece of memory is counted, of libraries too.
$(B)/tests/test_hostile: LIBS += $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc strdup free)
# The program whose system calls and allocations tests/test_everycall.c lets fail.
$(B)/tests/faulty: $(call obj,cli/main_s2.c tests/faulty.c) $(B)/libcli.a $(O)/libs2.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $^ -o $@ $(patsubst %,-Wl$(comma)--wrap=%,main malloc calloc realloc) $(LIBS) $(LIBS_CUDA)
$(B)/tests/test_everycall: | $(B)/tests/faulty
$(B)/tests/test_file: LIBS += $(patsubst %,-Wl$(comma)--wrap=%,fsync rename access read pread pread64)
$(B)/tests/test_%: $(O)/tests/test_%.c.o $(call obj,$(wildcard tests/gen_*.c)) $(B)/libcli.a $(O)/libs2.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ -lcmocka $(LIBS) $(LIBS_CUDA)
# Tests of the language and the prover, linked with nothing else: for tests/recipes/run.sh.
$(O)/core/test_%: $(O)/tests/test_%.c.o $(call obj,tests/gen_pattern.c tests/gen_spec.c tests/gen_split.c) $(O)/libcore.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $^ -o $@ -lcmocka $(LIBS_CORE)
# Tests of the formats without kernels, database and screens, for the same.
$(O)/formats/test_%: $(O)/tests/test_%.c.o $(call obj,$(wildcard tests/gen_[ps]*.c export/*.c plan/*.c) \
                    sim/net.c) $(O)/sim/texts.o $(O)/libcore.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $^ -o $@ -lcmocka $(LIBS_CORE) -ljansson -lyaml
# Tests of the views without database and terminal, for the same.
$(O)/screens/test_%: $(O)/tests/test_%.c.o $(call obj,$(filter-out %_ncurses.c,$(wildcard tui/*.c)) \
                    $(wildcard sim/*.c plan/*.c reach/*.c)) $(O)/sim/texts.o $(O)/libcore.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $^ -o $@ -lcmocka $(LIBS_CORE)
$(B)/bench_gpu: $(call obj,tests/bench/bench_gpu.c tests/kcheck/listed.c tests/bench/ceiling.cu) $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
$(B)/bench_lists: $(call obj,tests/bench/bench_lists.c tests/kcheck/listed.c cli/measure.c) $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
$(B)/bench_decode $(B)/bench_steps: $(B)/bench_%: $(O)/tests/bench/bench_%.c.o $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
KCHECK_O := $(call obj,$(wildcard tests/kcheck/*.c) $(if $(LIB_CU),tests/kcheck/hang.cu))
$(B)/kcheck_lanes: $(patsubst %,$(O)/%.lanes.o,$(LANES_CU))
# Kernels and their judge, and nothing else: what a new kernel builds.
KERNEL_C := $(foreach m,base pattern plan cache kernels judge,$(wildcard $(m)/*.c))
$(O)/libkernels.a: $(call obj,$(KERNEL_C) $(LIB_CU) $(CU_INST)) $(O)/members
	rm -f $@ && ar rcs $@ $(filter %.o,$^)
$(B)/kcheck $(B)/kcheck_lanes: $(KCHECK_O) $(O)/libkernels.a
	$(CC) $(CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBS_CORE) $(LIBS_CUDA)
