# s2 - one Makefile, not recursive. `make help` is its manual.
#
#   BUILD=release|debug|asan|tsan   (release)      CC=gcc|clang      CUDA=0 leaves the GPU kernels out
#   MPI=1 lets `s2 search` run as one MPI job (mpicc of Open MPI or MPICH)
#   KERNELS=sample optimises a part of the GPU kernels only (make check where no GPU could run them)
#
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
.DEFAULT_GOAL := all

BUILD ?= release
CC    := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
CXX   := $(if $(filter default undefined,$(origin CXX)),g++,$(CXX))
NVCC  ?= $(shell command -v nvcc 2>/dev/null || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
CUDA  ?= $(if $(NVCC),1,0)
JOBS  ?= $(shell nproc)
# What one command under test may take: builds with sanitizers are slow, and machines shared.
export S2_CPU_SECONDS ?= 120
export S2_MEMORY_MIB  ?= 16384

# CI has no debugger that wants variables: its reports name lines, and the code is the same.
OPT_release := -O3 $(if $(CI),-g1,-g) -DNDEBUG -D_FORTIFY_SOURCE=3
OPT_debug   := -O0 -g
SANITIZE    := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow
# Reports name lines; a debugger, which wants variables too, has BUILD=debug.
OPT_asan    := -O1 -g1 $(SANITIZE) -fno-omit-frame-pointer
OPT_tsan    := -O1 -g1 -fsanitize=thread
ifeq ($(OPT_$(BUILD)),)
$(error BUILD=$(BUILD) is not release, debug, asan or tsan)
endif

# O holds the objects, B the programs. MPI=1 has programs and one object of its own and shares all others.
COMPILER := $(notdir $(firstword $(filter-out %ccache %distcc -%,$(CC)))) # behind a launcher, before options
O        := build/$(BUILD)$(addprefix -,$(filter-out gcc,$(COMPILER)))$(if $(filter 0,$(CUDA)),-nocuda)
B        := $(O)$(if $(filter 1,$(MPI)),-mpi)
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
            -Wwrite-strings -Wvla -Werror=switch $(if $(CI),-Werror)
# What OpenSSF recommends and these compilers know; the programs read files from anywhere.
HARDEN   := -fPIC -fvisibility=hidden -fstack-protector-strong -fstack-clash-protection $(if $(filter x86_64,$(shell uname -m)),-fcf-protection=full) \
            -Wformat-security -Werror=format-security
CFLAGS   := -std=c11 -D_GNU_SOURCE -I. $(OPT_$(BUILD)) $(HARDEN) $(WARN) -pthread -fno-math-errno $(EXTRA_CFLAGS)
# Lines are for profilers: CI, which has none, leaves them out, and the instructions are the same.
GENCODE  := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a
NVFLAGS  := -std=c++17 -I. -O3 $(if $(CI),,-lineinfo) $(GENCODE) \
            -Xptxas --warn-on-spills -Xcompiler -fPIC,-Wall,-Wextra $(EXTRA_NVFLAGS)
# Debian's static archives: one binary runs on a bare machine. Their order is the order of dependence.
LIBS_CORE := -l:libmd.a -lm -pthread -pie -Wl,-z,relro,-z,now,-z,noexecstack
LIBS      := -l:libjansson.a -l:libyaml.a -l:libsqlite3.a -l:libncursesw.a -l:libtinfo.a -l:libpng.a -l:libz.a $(LIBS_CORE) -ldl
# The toolkit that nvcc belongs to; NVCC may carry a launcher ("ccache nvcc"), so its last word is the compiler.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(lastword $(NVCC)) 2>/dev/null)))
LIBS_CUDA := $(if $(filter 1,$(CUDA)),-L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/targets/x86_64-linux/lib \
             -lcudart_static -lrt -ldl -l:libstdc++.a)

# The one file that knows MPI is search/ranks.c; its headers are the system's, whatever folder they lie in.
MPI      ?= 0
MPICC    ?= mpicc
MPI_SHOW  = $(shell $(MPICC) --showme:$(1) 2>/dev/null || $(MPICC) -show 2>/dev/null | tr ' ' '\n' | grep -E '$(2)')
ifeq ($(MPI),1)
MPI_FLAGS := -DS2_HAVE_MPI=1 $(patsubst -I%,-isystem %,$(call MPI_SHOW,compile,^-I))
LIBS      += $(call MPI_SHOW,link,^-[Ll])
$(B)/search/ranks.c.o: CFLAGS += $(MPI_FLAGS)
$(B)/search/ranks.c.o: search/ranks.c $(O)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CUDA_DEFINE) -MMD -MP -c $< -o $@
endif

CORE    := base pattern coverage words
MODULES := $(CORE) plan reach sim calibrate search cache kernels judge report db draw export tui explorer cert library
CORE_C  := $(foreach m,$(CORE),$(wildcard $(m)/*.c))
# What differs with MPI=1 is linked with the programs and not from the library.
MPI_C   := search/ranks.c
LIB_C   := $(filter-out $(MPI_C),$(foreach m,$(MODULES),$(wildcard $(m)/*.c)))
CLI_C   := $(filter-out $(wildcard cli/main_*.c),$(wildcard cli/*.c)) $(MPI_C)
LIB_CU  := $(if $(filter 1,$(CUDA)),$(filter-out %_inst.cu,$(wildcard kernels/cuda/*.cu)))
# X_inst.cu is compiled once for each head dimension that it has and each type: X_inst.d128.fp16_0.cu.o
DIMS_decode_e4m3    := 64 128 256
DIMS_fwd_sm90_e4m3  := 128
DIMS_fwd_sm90_extra := 64 128 256
CU_INST := $(if $(filter 1,$(CUDA)),$(foreach f,$(wildcard kernels/cuda/*_inst.cu),\
           $(foreach d,$(or $(DIMS_$(patsubst %_inst.cu,%,$(notdir $(f)))),64 96 128 256),$(foreach t,0 1,$(basename $(f)).d$(d).fp16_$(t).cu))))
comma    := ,
# KERNELS=sample: of every file two are built, those that need most registers, one of each type. The other head dimensions are checked by the
# compiler in one type each and become PTX that nobody optimised, which takes a third of the time: no spill is seen there, and they are slow
# where they run. The same in the other type is left out: what has its name refuses to run.
CU_PTX    := $(if $(filter sample,$(KERNELS)),$(filter %.d64.fp16_1.cu %.d96.fp16_0.cu,$(CU_INST)))
CU_ABSENT := $(if $(filter sample,$(KERNELS)),$(filter-out %.d128.fp16_0.cu %.d256.fp16_1.cu $(CU_PTX),$(CU_INST)))
NVFLAGS_PTX = $(subst $(GENCODE),-gencode arch=compute_90a$(comma)code=compute_90a -Xcicc -O0,$(NVFLAGS))
# The smaller of the two is built for one architecture, the larger for both.
CU_ONE    := $(if $(filter sample,$(KERNELS)),$(filter %.d128.fp16_0.cu,$(CU_INST)))
NVFLAGS_ONE = $(subst $(GENCODE),-gencode arch=compute_90a$(comma)code=sm_90a,$(NVFLAGS))
TEST_C  := $(wildcard tests/test_*.c)
HEADERS := $(foreach m,$(MODULES) cli kernels/cuda,$(wildcard $(m)/*.h))
obj      = $(patsubst $(O)/search/ranks.%,$(B)/search/ranks.%,$(patsubst %,$(O)/%.o,$(1)))

CUDA_DEFINE := -DS2_HAVE_CUDA=$(if $(LIB_CU),1,0)

# The stack of a container, or of a thread of whoever calls the library, may be small: no function takes over 40 KiB of it.
ifeq ($(BUILD),release)
$(call obj,$(LIB_C) $(CLI_C) $(wildcard cli/main_*.c)): CFLAGS += -Wframe-larger-than=40960
endif

##@ Build and run
## all: the programs s2check, s2 and s2cert
all: $(B)/s2check $(B)/s2 $(B)/s2cert
	@mkdir -p build && ln -sfn $(notdir $(B)) build/current

# A change of flags or of the list of files rebuilds what depends on it, and nothing else does.
define stamp
	@mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' > $@
endef
.PHONY: FORCE
FORCE:
# What one target alone is compiled with is not asked here: it would reach this rule when that target asks first.
FLAGS    := $(CC) $(CFLAGS) $(CUDA_DEFINE)
$(O)/flags: FORCE
	$(call stamp,$(FLAGS))
$(O)/nvflags: FORCE
	$(call stamp,$(NVCC) $(NVFLAGS) $(CU_PTX))
$(O)/members: FORCE
	$(call stamp,$(LIB_C) $(LIB_CU) $(CU_INST) $(CLI_C) $(SIM_TXT))

# The commit that a binary reports and stores with each result.
$(O)/commit: FORCE
	$(call stamp,$(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown))
$(O)/cli/version.c.o: $(O)/commit $(O)/nvflags
$(O)/cli/version.c.o: CFLAGS += -DS2_COMMIT='"$(shell cat $(O)/commit 2>/dev/null)"' \
                                -DS2_BUILD='"$(BUILD) $(OPT_$(BUILD)) CUDA=$(CUDA)$(KERNELS:%= KERNELS=%)"'

# A kind of term that somebody forgot is an error, also where a switch has a default.
$(O)/pattern/%.c.o $(O)/coverage/%.c.o $(O)/words/%.c.o $(O)/export/predicate.c.o: CFLAGS += -Werror=switch-enum

# A library that is not there is named by its package, before a compiler asks for its header.
$(O)/headers: $(O)/flags
	@tests/setup.sh headers $(CC) && touch $@
$(O)/test-headers: $(O)/flags
	@tests/setup.sh test-headers $(CC) && touch $@
$(patsubst %.c,$(O)/%.c.o,$(TEST_C)): | $(O)/test-headers
# A test runs once in a check, what it tests many times.
ifeq ($(BUILD)$(CI),release1)
$(patsubst %.c,$(O)/%.c.o,$(TEST_C)): CFLAGS += -O1
endif
$(O)/%.c.o: %.c $(O)/flags | $(O)/headers
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CUDA_DEFINE) -MMD -MP -c $< -o $@
define instance
$(O)/$(1).$(2)o: $(firstword $(subst .d, ,$(1))).cu $(O)/nvflags
	@mkdir -p $$(@D)
	$(if $(CI),$(if $(2),,tests/lint/nvcc.sh $$@ ))$(NVCC) $(if $(2),$(NVFLAGS),$(if $(filter $(1),$(CU_PTX)),$(NVFLAGS_PTX),$(if $(filter $(1),$(CU_ONE)),$(NVFLAGS_ONE),$(NVFLAGS)))) $(3) -DS2_HEAD_DIM=$(patsubst d%,%,$(word 2,$(subst ., ,$(1)))) \
	  -DS2_FP16=$(patsubst fp16_%,%,$(word 3,$(subst ., ,$(1)))) -MD -MP -MF $$(@:.o=.d) -c $$< -o $$@
endef
$(foreach i,$(filter-out $(CU_ABSENT),$(CU_INST)),$(eval $(call instance,$(i),,)))
# What is left out has the name of the function in the other type's object, and answers cudaErrorNotSupported (801).
type_of = $(if $(findstring .fp16_0.,$(1)),fp16_$(2),fp16_$(3))
define absent
$(O)/$(1).o: $(O)/$(subst .$(call type_of,$(1),0,1).,.$(call type_of,$(1),1,0).,$(1)).o
	nm -g --defined-only $$< | awk '$$$$2 == "T" && sub(/$(call type_of,$(1),1,0)/, "$(call type_of,$(1),0,1)", $$$$3) { \
	  printf "int %s(void); int %s(void) { return 801; }\n", $$$$3, $$$$3 }' | $(CC) $$(CFLAGS) -x c -c - -o $$@
endef
$(foreach i,$(CU_ABSENT),$(eval $(call absent,$(i))))
# For the race checker alone, which minds no spilled register (two of them spill 8 bytes): kernels/cuda/sm90.cuh says why. They stand before the library, whose own are then not linked.
LANES_CU := $(filter kernels/cuda/bwd_sm90_inst.% kernels/cuda/fwd_sm90_inst.d64.fp16_0.cu kernels/cuda/fwd_sm90_inst.d128.fp16_0.cu,$(CU_INST))
$(foreach i,$(LANES_CU),$(eval $(call instance,$(i),lanes.,-DS2_EVERY_LANE)))
$(O)/%.cu.o: %.cu $(O)/nvflags
	@mkdir -p $(@D)
	$(if $(CI),tests/lint/nvcc.sh $@ )$(NVCC) $(NVFLAGS) -MD -MP -MF $(@:.o=.d) -c $< -o $@

$(O)/libcore.a: $(call obj,$(CORE_C)) $(O)/members
	rm -f $@ && ar rcs $@ $(filter %.o,$^)
# GPU tables are text files that anybody can read; one C table of them makes one program enough.
SIM_TXT := $(wildcard sim/gpus/*.txt sim/calibration/*.txt sim/peers/*.txt docs/results/*-held-out.jsonl docs/results/public/*.csv)
$(O)/sim/texts.c: sim/embed.awk $(SIM_TXT) $(O)/members
	@mkdir -p $(@D)
	awk -f sim/embed.awk $(SIM_TXT) > $@
$(O)/sim/texts.o: $(O)/sim/texts.c $(O)/flags
	$(CC) $(CFLAGS) -Wno-overlength-strings -MMD -MP -c $< -o $@

$(O)/libs2.a: $(call obj,$(LIB_C) $(LIB_CU) $(CU_INST)) $(O)/sim/texts.o $(O)/members
	rm -f $@ && ar rcs $@ $(filter %.o,$^)
$(B)/libcli.a: $(call obj,$(CLI_C)) $(O)/members
	rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(B)/s2check: $(call obj,cli/main_s2check.c) $(B)/libcli.a $(O)/libcore.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS_CORE)
$(B)/s2cert: $(call obj,cli/main_s2cert.c $(wildcard cert/*.c))
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS_CORE)
$(B)/s2: $(call obj,cli/main_s2.c) $(B)/libcli.a $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
-include $(shell find $(sort $(O) $(B)) -name '*.d' 2>/dev/null)

## demo: set up, build, and take Phi-3-small's config through the whole job
demo: setup
	@$(if $(NVCC),,echo "no nvcc: the GPU kernels are left out, everything else is built")
	@$(MAKE) -s -j$(JOBS) all
	@tests/demo.sh build/current

##@ Test
## check: set up, build every way, run every test; what CI runs
check: setup-check
	@tests/check.sh "$(MAKE)"

## check-all: the same with every unit test whole under sanitizers too; an hour
check-all: setup-check
	@ALL=1 tests/check.sh "$(MAKE)"

## quick: the release build and its unit tests with few random cases
quick:
	@$(MAKE) -s -j$(JOBS) CUDA=0 all && S2_CASES=200 $(MAKE) -s -j$(JOBS) CUDA=0 unit

setup:
	@tests/setup.sh build
setup-check:
	@tests/setup.sh check

## tests: build the test programs without running them
tests: $(patsubst tests/%.c,$(B)/tests/%,$(TEST_C))

## unit: build and run the unit and property tests (T=name for one; PART=timed: what prints times, PART=rest: all else)
# The longest first, so that tests that run side by side end together.
LONG_C  := $(patsubst %,tests/test_%.c,tui_pty everycall disk cli tui faults prove search db explorer power calibration)
TIMED_C = $(shell grep -l '_timed.void' $(TEST_C))
UNIT_C  := $(if $(filter timed,$(PART)),$(TIMED_C),$(LONG_C) $(filter-out $(LONG_C),$(TEST_C)))
TESTS   := $(patsubst tests/%.c,$(B)/tests/%,$(if $(T),tests/test_$(T).c,$(UNIT_C)))
unit: $(TESTS)
	$(if $(filter timed,$(PART)),S2_TEST='*_timed' )$(if $(filter rest,$(PART)),S2_SKIP='*_timed' )tests/run.sh $^

## kcheck: every kernel on every case, and the faulty kernels that must be convicted (SAMPLE=1: one type a case on the CPU)
kcheck: $(B)/kcheck
	$(B)/kcheck --sabotage --light $(if $(SAMPLE),--sample)
	$(B)/kcheck $(if $(SAMPLE),--sample)

## worth: the tables of docs/worth.md, from the rows under docs/results/
worth: $(B)/s2
	python3 experiments/judge.py --s2 $(B)/s2

## check-docs: run what README.md and docs/ show, and compare what it prints
check-docs: $(B)/s2 $(B)/s2check $(B)/s2cert
	tests/docs.sh $(B)

## check-layers: who may include whom (tests/lint/layers.txt), every header alone and all of them together
check-layers:
	python3 tests/lint/house.py layers
	@printf '%s\n' $(HEADERS) | tests/lint/headers.sh "$(CC)" "$(CXX)" -D_GNU_SOURCE -I. $(WARN)
## check-recipes: follow docs/adding-a-*.md to the letter in scratch copies, and see a forgotten step fail
check-recipes:
	@for recipe in $(patsubst tests/recipes/%.recipe,%,$(wildcard tests/recipes/*.recipe)); do tests/recipes/run.sh $$recipe || exit 1; done
## check-house: what docs/architecture.md claims: exported names, who speaks, circles, lengths, oracles; each check seen red
check-house: all
	python3 tests/lint/house.py lengths
	python3 tests/lint/house.py symbols $(O)
	tests/lint/stamps.sh $(MAKE)
	tests/lint/test_lint.sh $(O)

FORMATTED = $(LIB_C) $(CLI_C) docs/examples/serve.c docs/examples/library.c docs/examples/plug/mine.c $(wildcard python/*.c cli/main_*.c tests/*.[ch] tests/*/*.[ch] kernels/cuda/*.cu*) $(HEADERS)
## format: rewrite C and CUDA sources in the house's style (clang-format 14)
format:
	clang-format -i $(FORMATTED)
check-format:
	@clang-format --version | grep -q 'version 14' || { echo "skipped: clang-format 14 is the house's version"; exit 0; }; \
	clang-format -n -Werror $(FORMATTED) && echo "$(words $(FORMATTED)) files are in the house's style"

##@ Change
## golden: rewrite the transcripts under tests/cli/; review the difference
golden: $(B)/s2 $(B)/s2check $(B)/s2cert
	tests/cli/run.sh $(B) --write

## golden-read: rewrite what s2 reads in the files of tests/data/foreign/ and tests/data/configs/; review the difference
golden-read: $(B)/tests/test_foreign
	S2_GOLDEN_WRITE=1 S2_TEST='*_are_read_as_expected' $<

## golden-tui: rewrite the screens under tests/golden/; review the difference
golden-tui: $(B)/tests/test_tui $(B)/tests/test_tui_pty
	S2_GOLDEN_WRITE=1 S2_TEST='every_view*' $(B)/tests/test_tui
	S2_GOLDEN_WRITE=1 S2_TEST='scripts*' $(B)/tests/test_tui_pty

##@ Help
## clean: remove build/
clean:
	rm -rf build

## help: this text
help:
	@sed -n 's/^##@ /\n/p; s/^## \([a-z-]*\): /\1\t/p' Makefile library/library.mk tests/campaigns.mk | \
	  awk -F'\t' 'NF == 2 { printf "  %-15s %s\n", $$1, $$2; next } { print }'

include tests/link.mk tests/campaigns.mk library/library.mk
# Every target with a line of help is a name, not a file.
.PHONY: $(shell sed -n 's/^## \([a-z-]*\):.*/\1/p' Makefile library/library.mk tests/campaigns.mk) setup setup-check check-format races

