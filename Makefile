# s2 - one Makefile, not recursive. `make help` is its manual.
#
#   BUILD=release|debug|asan|tsan   (release)      CC=gcc|clang      CUDA=0 leaves the GPU kernels out
#   MPI=1 lets `s2 search` run as one MPI job (mpicc of Open MPI or MPICH)
#
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
.DEFAULT_GOAL := all

BUILD ?= release
CC    := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
NVCC  ?= $(shell command -v nvcc 2>/dev/null || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
CUDA  ?= $(if $(NVCC),1,0)
JOBS  ?= $(shell nproc)

OPT_release := -O3 -g -DNDEBUG
OPT_debug   := -O0 -g
SANITIZE    := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow
OPT_asan    := -O1 -g $(SANITIZE) -fno-omit-frame-pointer
OPT_tsan    := -O1 -g -fsanitize=thread
ifeq ($(OPT_$(BUILD)),)
$(error BUILD=$(BUILD) is none of release, debug, asan, tsan)
endif

# O holds the objects, B the programs. MPI=1 has programs and one object of its own and shares all others.
O        := build/$(BUILD)$(if $(filter gcc,$(CC)),,-$(notdir $(CC)))$(if $(filter 0,$(CUDA)),-nocuda)
B        := $(O)$(if $(filter 1,$(MPI)),-mpi)
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
            -Wwrite-strings -Wvla $(if $(CI),-Werror)
CFLAGS   := -std=c11 -D_GNU_SOURCE -I. $(OPT_$(BUILD)) $(WARN) -pthread -fno-math-errno $(EXTRA_CFLAGS)
NVFLAGS  := -std=c++17 -I. -O3 -lineinfo -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
            -Xptxas --warn-on-spills -Xcompiler -Wall,-Wextra $(EXTRA_NVFLAGS)
# Debian's static archives: one binary runs on a bare machine. Their order is the order of dependence.
LIBS_CORE := -l:libmd.a -lm -pthread
LIBS      := -l:libjansson.a -l:libyaml.a -l:libsqlite3.a -l:libncursesw.a -l:libtinfo.a -l:libpng.a -l:libz.a $(LIBS_CORE) -ldl
# The toolkit that nvcc belongs to; NVCC may carry a launcher ("ccache nvcc"), so its last word is the compiler.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(lastword $(NVCC)) 2>/dev/null)))
LIBS_CUDA := $(if $(filter 1,$(CUDA)),-L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/targets/x86_64-linux/lib \
             -lcudart_static -lrt -ldl -l:libstdc++.a)

# The one file that knows MPI is cli/ranks.c; its headers are the system's, whatever folder they lie in.
MPI      ?= 0
MPICC    ?= mpicc
MPI_SHOW  = $(shell $(MPICC) --showme:$(1) 2>/dev/null || $(MPICC) -show 2>/dev/null | tr ' ' '\n' | grep -E '$(2)')
ifeq ($(MPI),1)
MPI_FLAGS := -DS2_HAVE_MPI=1 $(patsubst -I%,-isystem %,$(call MPI_SHOW,compile,^-I))
LIBS      += $(call MPI_SHOW,link,^-[Ll])
$(B)/cli/ranks.c.o: CFLAGS += $(MPI_FLAGS)
$(B)/cli/ranks.c.o: cli/ranks.c $(O)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CUDA_DEFINE) -MMD -MP -c $< -o $@
endif

CORE    := base pattern coverage
MODULES := $(CORE) plan sim search kernels db export tui
CORE_C  := $(foreach m,$(CORE),$(wildcard $(m)/*.c))
LIB_C   := $(foreach m,$(MODULES),$(wildcard $(m)/*.c))
CLI_C   := $(filter-out $(wildcard cli/main_*.c),$(wildcard cli/*.c))
LIB_CU  := $(if $(filter 1,$(CUDA)),$(filter-out %_inst.cu,$(wildcard kernels/cuda/*.cu)))
# X_inst.cu is compiled once for each head dimension and type: X_inst.d128.fp16_0.cu.o
CU_INST := $(if $(filter 1,$(CUDA)),$(foreach f,$(wildcard kernels/cuda/*_inst.cu),\
           $(foreach d,64 96 128 256,$(foreach t,0 1,$(basename $(f)).d$(d).fp16_$(t).cu))))
TEST_C  := $(wildcard tests/test_*.c)
HEADERS := $(foreach m,$(MODULES) cli kernels/cuda,$(wildcard $(m)/*.h))
obj      = $(patsubst $(O)/cli/ranks.%,$(B)/cli/ranks.%,$(patsubst %,$(O)/%.o,$(1)))

CUDA_DEFINE := -DS2_HAVE_CUDA=$(if $(LIB_CU),1,0)

## all: the programs s2check, s2 and s2cert
all: $(B)/s2check $(B)/s2 $(B)/s2cert
	@mkdir -p build && ln -sfn $(notdir $(B)) build/current

# A change of flags or of the list of files rebuilds what depends on it, and nothing else does.
define stamp
	@mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' > $@
endef
.PHONY: FORCE
FORCE:
$(O)/flags: FORCE
	$(call stamp,$(CC) $(CFLAGS) $(CUDA_DEFINE))
$(O)/nvflags: FORCE
	$(call stamp,$(NVCC) $(NVFLAGS))
$(O)/members: FORCE
	$(call stamp,$(LIB_C) $(LIB_CU) $(CU_INST) $(CLI_C))

# The commit that a binary reports and stores with each result.
$(O)/commit: FORCE
	$(call stamp,$(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown))
$(O)/cli/version.c.o: $(O)/commit
$(O)/cli/version.c.o: CFLAGS += -DS2_COMMIT='"$(shell cat $(O)/commit 2>/dev/null)"' \
                                -DS2_BUILD='"$(BUILD) $(OPT_$(BUILD)) CUDA=$(CUDA)"'

$(O)/%.c.o: %.c $(O)/flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CUDA_DEFINE) -MMD -MP -c $< -o $@
define instance
$(O)/$(1).$(2)o: $(firstword $(subst .d, ,$(1))).cu $(O)/nvflags
	@mkdir -p $$(@D)
	$(if $(CI),tests/lint/nvcc.sh $$@ )$(NVCC) $(NVFLAGS) $(3) -DS2_HEAD_DIM=$(patsubst d%,%,$(word 2,$(subst ., ,$(1)))) \
	  -DS2_FP16=$(patsubst fp16_%,%,$(word 3,$(subst ., ,$(1)))) -MD -MP -MF $$(@:.o=.d) -c $$< -o $$@
endef
$(foreach i,$(CU_INST),$(eval $(call instance,$(i),,)))
# For the race checker alone: kernels/cuda/sm90.cuh says why. They stand before the library, whose own are then not linked.
LANES_CU := $(filter kernels/cuda/bwd_sm90_inst.%,$(CU_INST))
$(foreach i,$(LANES_CU),$(eval $(call instance,$(i),lanes.,-DS2_EVERY_LANE)))
$(O)/%.cu.o: %.cu $(O)/nvflags
	@mkdir -p $(@D)
	$(if $(CI),tests/lint/nvcc.sh $@ )$(NVCC) $(NVFLAGS) -MD -MP -MF $(@:.o=.d) -c $< -o $@

$(O)/libcore.a: $(call obj,$(CORE_C)) $(O)/members
	rm -f $@ && ar rcs $@ $(filter %.o,$^)
# GPU and model tables are text files that anybody can read; one C table of them makes one program enough.
SIM_TXT := $(wildcard sim/gpus/*.txt sim/calibration/*.txt docs/results/*-held-out.jsonl) sim/models.txt
$(O)/sim/texts.c: sim/embed.awk $(SIM_TXT)
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
$(B)/s2cert: $(call obj,cli/main_s2cert.c)
	$(CC) $(CFLAGS) $^ -o $@ -l:libmd.a
$(B)/s2: $(call obj,cli/main_s2.c) $(B)/libcli.a $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
$(B)/tests/test_cli: | $(B)/s2 $(B)/s2check $(B)/s2cert
# The terminal emulator that reads the screens of tests/test_tui_pty.c back.
$(B)/tests/test_tui_pty: LIBS += -lvterm -lutil
$(B)/tests/test_tui_pty: $(call obj,tests/console.c) | $(B)/s2
# These tests stand between the database, or a file, and the disk.
comma := ,
$(B)/tests/test_power: LIBS += $(patsubst %,-Wl$(comma)--wrap=%,open open64 close write pwrite64 ftruncate64 fsync fdatasync link rename unlink)
$(B)/tests/test_file: LIBS += -Wl,--wrap=fsync -Wl,--wrap=rename
$(B)/tests/test_%: $(O)/tests/test_%.c.o $(call obj,$(wildcard tests/gen_*.c)) $(B)/libcli.a $(O)/libs2.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ -lcmocka $(LIBS) $(LIBS_CUDA)
$(B)/bench_gpu: $(call obj,tests/bench/bench_gpu.c tests/bench/ceiling.cu) $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
$(B)/bench_decode: $(call obj,tests/bench/bench_decode.c) $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
KCHECK_O := $(call obj,$(wildcard tests/kcheck/*.c) $(if $(LIB_CU),tests/kcheck/hang.cu)) $(O)/cli/watchdog.c.o
$(B)/kcheck_lanes: $(patsubst %,$(O)/%.lanes.o,$(LANES_CU))
$(B)/kcheck $(B)/kcheck_lanes: $(KCHECK_O) $(O)/libs2.a
	$(CC) $(CFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBS_CORE) $(LIBS_CUDA)

# This test runs the checker as a user does.
$(B)/tests/test_certificate: | $(B)/s2cert

-include $(shell find $(sort $(O) $(B)) -name '*.d' 2>/dev/null)

## demo: set up, build, and take Phi-3-small's config through the whole job
demo: setup
	@$(if $(NVCC),,echo "no nvcc: the GPU kernels are left out, everything else is built")
	@$(MAKE) -s -j$(JOBS) all
	@tests/demo.sh build/current

## check: set up, build every way, run every test; what CI runs
check: setup-check
	@tests/check.sh "$(MAKE)"

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
LONG_C  := $(patsubst %,tests/test_%.c,prove faults tui_pty search db certificate gradient)
TIMED_C := $(patsubst %,tests/test_%.c,tui_pty search tui sim parse)
UNIT_C  := $(if $(filter timed,$(PART)),$(TIMED_C),$(LONG_C) $(filter-out $(LONG_C),$(TEST_C)))
TESTS   := $(patsubst tests/%.c,$(B)/tests/%,$(if $(T),tests/test_$(T).c,$(UNIT_C)))
unit: $(TESTS)
	$(if $(filter timed,$(PART)),S2_TEST='*_timed' )$(if $(filter rest,$(PART)),S2_SKIP='*_timed' )tests/run.sh $^

# A campaign is open-ended: a random seed, SECONDS long, its corpus kept. SAMPLE=1 is what `make check` runs:
# a fixed seed and number of inputs from an empty corpus, the same in every run (addresses, where they may be fixed,
# are, and compared values are not fed back: some are addresses); a slow machine stops earlier.
SECONDS ?= 60
FUZZ_C  := $(wildcard base/*.c pattern/*.c)
FUZZ_IMPORT_C = $(FUZZ_C) $(wildcard plan/*.c export/*.c)
FUZZ_CC  = clang -std=c11 -D_GNU_SOURCE -I. -O1 -g -fsanitize=fuzzer $(SANITIZE)
FUZZ_RUN = $(if $(SAMPLE),-seed=1 -use_cmp=0 -use_memmem=0 -reload=0 -runs=$(1) -max_total_time=$(2) -timeout=120,-max_total_time=$(3) -timeout=10) \
           -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1
FUZZ_AT  = $(if $(SAMPLE),$(shell setarch -R true 2>/dev/null && echo setarch -R))
FUZZ_DIR = build/fuzz/$(if $(SAMPLE),sample,corpus)
build/fuzz/fuzz_parse: tests/fuzz/fuzz_parse.c $(FUZZ_C) $(HEADERS)
	@mkdir -p $(@D)
	$(FUZZ_CC) $< $(FUZZ_C) -o $@ $(LIBS_CORE)
build/fuzz/fuzz_import: tests/fuzz/fuzz_import.c $(FUZZ_IMPORT_C) $(HEADERS)
	@mkdir -p $(@D)
	$(FUZZ_CC) $< $(FUZZ_IMPORT_C) -o $@ -l:libjansson.a -l:libyaml.a -l:libpng.a -l:libz.a $(LIBS_CORE)
## fuzz: libFuzzer on the parser, with round trip, at random (clang; SECONDS=60; SAMPLE=1: the same inputs every time)
fuzz: build/fuzz/fuzz_parse
	@$(if $(SAMPLE),rm -rf $(FUZZ_DIR)/parse;) mkdir -p $(FUZZ_DIR)/parse
	$(FUZZ_AT) $< $(call FUZZ_RUN,400000,60,$(SECONDS)) -max_len=65536 -artifact_prefix=build/fuzz/ -dict=tests/fuzz/pattern.dict \
	  $(FUZZ_DIR)/parse tests/data/patterns
## fuzz-import: libFuzzer on every importer, one target each, at random (clang; SECONDS=60 together; F=hf for one; SAMPLE=1 as above)
IMPORTERS = $(or $(F),$(shell sed -n 's/^ *X(\([a-z0-9]*\)).*/\1/p' export/format.h) any)
fuzz-import: build/fuzz/fuzz_import
	@n=0; each=$$(( $(SECONDS) / $(words $(IMPORTERS)) )); [ $$each -gt 0 ] || each=1; \
	for f in $(IMPORTERS); do \
	  $(if $(SAMPLE),rm -rf $(FUZZ_DIR)/$$f;) mkdir -p $(FUZZ_DIR)/$$f; ln -f $< build/fuzz/fuzz_import_$$f; \
	  seeds=tests/data/foreign/$$f; [ -d $$seeds ] || seeds=tests/data/foreign; \
	  $(FUZZ_AT) build/fuzz/fuzz_import_$$f $(call FUZZ_RUN,4000,5,$$each) -max_len=16384 -artifact_prefix=build/fuzz/$$f- \
	    $(FUZZ_DIR)/$$f $$seeds >build/fuzz/$$f.log 2>&1 || \
	    { cat build/fuzz/$$f.log; echo "fuzz-import: $$f failed"; exit 1; }; \
	  runs=$$(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/$$f.log); n=$$((n + 1)); \
	  printf '%-14s %s inputs\n' $$f "$$runs"; \
	done; echo "$$n importers survived"

## bench-gpu: check and time every GPU kernel beside this card's ceilings (PEERS=1: torch's kernels too)
bench-gpu: $(B)/bench_gpu $(B)/bench_decode
	$(B)/bench_gpu --commit=$$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown) --rows=$(B)/bench-gpu.jsonl $(BENCH)
	$(B)/bench_decode --commit=$$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown) > $(B)/bench-decode.jsonl
	$(if $(PEERS),python3 tests/peers/peers.py --bench=$(B)/bench_gpu --rows=$(B)/bench-peers.jsonl)
	@echo "rows: $(B)/bench-gpu.jsonl $(B)/bench-decode.jsonl $(if $(PEERS),$(B)/bench-peers.jsonl)"
	@command -v python3 >/dev/null && \
	  python3 tests/bench/table.py $(B)/bench-gpu.jsonl $(B)/bench-decode.jsonl $(if $(PEERS),$(B)/bench-peers.jsonl) || true

## validate-gpu: the validation campaign on this GPU: pairs, values, needles, times, bytes (GPU=cpu: anywhere)
validate-gpu: $(B)/s2
	tests/bench/campaign.sh $(B)/s2 $(B)/validate-gpu.jsonl $(or $(GPU),gpu)

RECORD := s2 kcheck kcheck_lanes bench_gpu bench_decode relay
## record-gpu: every GPU figure of the documentation, resumable (MINUTES=N, STEPS=a,b, CARDS=0,1 side by side, PLAN=1: only say what it would take)
record-gpu: $(RECORD:%=$(B)/%)
	tests/bench/record.sh $(if $(PLAN),--plan) $(if $(MINUTES),--minutes=$(MINUTES)) $(if $(STEPS),--only=$(STEPS)) $(if $(CARDS),--cards=$(CARDS)) $(B)
## record-pack: the programs of record-gpu as one small archive, for a machine that builds nothing
record-pack: $(RECORD:%=$(B)/%)
	@mkdir -p $(B)/pack && for p in $(RECORD); do strip -o $(B)/pack/$$p $(B)/$$p || exit 1; done
	@tar cf - -C $(B)/pack $(RECORD) | xz --lzma2=preset=3,dict=192MiB >build/record-programs.tar.xz
	@ls -l build/record-programs.tar.xz | awk '{ print $$9 ": " $$5 " bytes" }'; echo "there: tests/bench/record.sh build/record-programs.tar.xz"
## check-record: that command with programs that only pretend to have a GPU
check-record:
	tests/bench/record_test.sh

## sanitize-gpu: compute-sanitizer's four tools over a part of kcheck on this GPU
sanitize-gpu: $(B)/kcheck $(B)/kcheck_lanes $(B)/relay
	JOBS=$(JOBS) tests/kcheck/sanitize.sh $(B)/kcheck $(B)/kcheck_lanes $(B)/relay
$(B)/relay: tests/kcheck/relay.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a $< -o $@

## kcheck: every kernel on every case, and the faulty kernels that must be convicted
kcheck: $(B)/kcheck
	$(B)/kcheck --sabotage --light
	$(B)/kcheck

## check-docs: run what README.md and docs/ show, and compare what it prints
check-docs: $(B)/s2 $(B)/s2check $(B)/s2cert
	tests/docs.sh $(B)

## check-select: the device code of page selection on the host, its threads as fibers, under sanitizers (S2_SEED=N)
check-select: $(B)/select_host
	$< $(S2_SEED) 2>/dev/null
CXX := $(if $(filter default undefined,$(origin CXX)),g++,$(CXX))
$(B)/select_host: tests/kcheck/select_host.cpp kernels/cuda/select.cuh kernels/cuda/decode_rows.cuh kernels/cuda/mma.cuh
	@mkdir -p $(B)/host && : >$(B)/host/math_constants.h
	$(CXX) -std=c++17 -I. -I$(B)/host -O1 -g -Wall -Wextra -Wno-unknown-pragmas -fsanitize=address,undefined \
	  -fno-sanitize-recover=undefined $< -o $@

## check-races: what runs on several threads, under ThreadSanitizer
# Its memory map wants addresses where they always were. A program that reports a race exits with 66.
RACES    := kernels gradient decode search:predictions_choose* tui_pty:a_terminal_that_goes_away* tui_pty:the_ends_of_the_list*
RACES_AT  = $(shell setarch -R true 2>/dev/null && echo setarch -R)
check-races:
	@$(MAKE) -s -j$(JOBS) BUILD=tsan CUDA=0 races
races: $(B)/s2 $(sort $(foreach r,$(RACES),$(B)/tests/test_$(firstword $(subst :, ,$(r)))))
	@for r in $(foreach r,$(RACES),'$(r)'); do \
	  case $$r in *:*) S2_TEST=$${r#*:};; *) S2_TEST='*';; esac; export S2_TEST; \
	  S2_CASES_MAX=30 $(RACES_AT) $(B)/tests/test_$${r%:*} >$(B)/race.out 2>&1 || { cat $(B)/race.out; exit 1; }; done
	@echo "no race in $(words $(RACES)) runs"

## formats: the foreign definitions restated in plain Python, against what s2 exports
formats: $(B)/s2
	python3 tests/formats/check_formats.py $(B)/s2
## pictures: docs/pictures/ of Phi-3-small and of a pattern with holes
PHI3   := name phi-3-small-8k; layers 32; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1; layers 1::2: dense
BROKEN := name broken; heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv
SINGLE := name windows-then-dense; layers 4; heads 8; layers all: local 1024t; layers 3: dense
pictures: $(B)/s2
	@mkdir -p docs/pictures
	$(B)/s2 draw '$(PHI3)' -o docs/pictures/phi3-union.png
	$(B)/s2 draw '$(PHI3)' -H 0 -o docs/pictures/phi3-head0.png
	$(B)/s2 draw '$(PHI3)' -w shards -o docs/pictures/phi3-shards.svg
	$(B)/s2 draw '$(BROKEN)' -o docs/pictures/broken-union.png
	$(B)/s2 draw '$(BROKEN)' -w shards -o docs/pictures/broken-shards.png
	$(B)/s2 draw '$(PHI3)' -w kv -o docs/pictures/phi3-kv.svg
	$(B)/s2 draw '$(BROKEN)' --len 32k -w kv -o docs/pictures/broken-kv.png
	$(B)/s2 draw '$(SINGLE)' -w flow -o docs/pictures/window-flow.dot
	$(B)/s2 draw '$(SINGLE)' -w flow -o docs/pictures/window-flow.png
	@rm -f $(B)/front.db; for l in 4 8 16 32; do for v in 4 8 12 16; do for by in head kv head*3; do \
	  p="name l$$l-v$$v-$$(echo $$by | tr -d '*'); model llama-3.1-8b; layers all: local $$l | stride $$v phase $$by"; \
	  $(B)/s2 check "$$p" --db $(B)/front.db >/dev/null; $(B)/s2 sim "$$p" --len 32k --db $(B)/front.db >/dev/null; \
	  done; done; done
	$(B)/s2 draw --what pareto union=holds --db $(B)/front.db -o docs/pictures/front.svg
	$(B)/s2 draw --what pareto union=holds --db $(B)/front.db -o docs/pictures/front.png
	@printf 'size 112x32\n1\ndown ]\ndown right\nG k k\n[ [ [ [\nk k left\ng j\ndump\n' > $(B)/screen.txt
	$(B)/s2 tui --no-db --script $(B)/screen.txt --as png -o docs/pictures/workbench.png
## example: build and run docs/examples/: count_pairs.c with exported headers (one of windows in tokens), a serving loop
EXAMPLES := phi3 tokens
EXAMPLE_phi3   = '$(PHI3)' --len 8k
EXAMPLE_tokens = 'name tokens; layers 2; heads 4; kv-heads 2; layers all: local 200t | sink 5t | stride 6 phase head; layers 1: chunk 100t' --len 4k --set tile=64 --set pack=2
example: $(B)/s2 $(EXAMPLES:%=example-%) $(B)/example/serve
	$(B)/example/serve
$(B)/example/serve: $(call obj,docs/examples/serve.c) $(O)/libs2.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
example-%: $(B)/s2
	@mkdir -p $(B)/example/$*
	$(B)/s2 --db $(B)/example/s2.db export $(EXAMPLE_$*) --to c --force -o $(B)/example/$*/pattern.h
	$(CC) $(CFLAGS) -I$(B)/example/$* docs/examples/count_pairs.c -o $(B)/example/$*/count_pairs
	$(B)/example/$*/count_pairs
$(B)/tests/bench/bench_%: $(O)/tests/bench/bench_%.c.o $(O)/libcore.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS_CORE)
## bench: print how fast verdicts and prices come (docs/proof.md, docs/simulator.md); judges nothing
bench: $(B)/tests/bench/bench_prove $(B)/s2check $(B)/tests/test_sim
	$< $(B)/s2check "$$(git describe --always --dirty 2>/dev/null || echo unknown)"
	@S2_CASES=5 $(B)/tests/test_sim 2>/dev/null | sed -n 's/^# s2: \(candidates.*\)/\1/p'

## million: the prover against enumeration on a million patterns of each kind per seed (hours; goes on where it stopped, MINUTES=N)
MILLION_SEEDS ?= 10000000 20000000 30000000
million: $(B)/tests/test_prove
	tests/million.sh $< build/million.done $(MILLION_SEEDS)

$(B)/tests/bench/bench_db: $(O)/tests/bench/bench_db.c.o $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
## bench-db: a database of a million designs (DESIGNS=N), and what a page and a filter of it cost
DESIGNS ?= 1000000
bench-db: $(B)/tests/bench/bench_db $(B)/s2
	@mkdir -p build/bench
	$< $(B)/s2 build/bench/designs-$(DESIGNS).db $(DESIGNS)

## bench-search: a million candidates for Llama-3.1-8B at 128k, on all cores
bench-search: $(B)/s2
	$< search 'block {16,32,64,128}; layers all: local {1..64} | sink {1..4} | stride {2..32} phase {head,kv}*{1,3}+{0..3}; {,layers 1::2: dense}' \
	  --model llama-3.1-8b --len 128k --phase prefill,decode --no-db

## mpi: build with MPI=1 and test a job of 4 ranks on this machine against one process and 4 shards
mpi:
	@tests/setup.sh mpi
	@$(MAKE) -s -j$(JOBS) MPI=1 $(B)-mpi/s2
	@tests/mpi.sh $(B)-mpi/s2

## power: simulated power cuts while a database works (CUTS=100000; about 10 ms each)
CUTS ?= 100000
power: $(B)/tests/test_power
	S2_CASES=$(CUTS) $<

## bench-tui: keys through a terminal with a million designs (DESIGNS=N); minutes, most of them to make the file
bench-tui: $(B)/tests/test_tui_pty
	S2_DESIGNS=$(DESIGNS) S2_TEST='keys_are_timed' $<
## soak-tui: 100 000 random keys and sizes a seed beside a writer, under asan (KEYS=N SEEDS="1 2")
KEYS  ?= 100000
SEEDS ?= 1 2 3
soak-tui:
	@$(MAKE) -s BUILD=asan CUDA=0 build/asan-nocuda/tests/test_tui_pty build/asan-nocuda/tests/test_tui build/asan-nocuda/s2
	@for seed in $(SEEDS); do \
	  S2_SEED=$$seed S2_CASES=$(KEYS) S2_TEST='random_keys*' build/asan-nocuda/tests/test_tui || exit 1; \
	  S2_SEED=$$seed S2_SOAK=$(KEYS) S2_TEST='random_keys*' build/asan-nocuda/tests/test_tui_pty || exit 1; done

## check-layers: who may include whom (tests/lint/layers.txt), and every header alone
check-layers:
	tests/lint/layers.sh
	@printf '%s\n' $(HEADERS) | xargs -P $(JOBS) -n 1 $(CC) -std=c11 -D_GNU_SOURCE -I. $(WARN) -fsyntax-only -x c
	@echo "$(words $(HEADERS)) headers stand alone"

FORMATTED = $(LIB_C) $(CLI_C) docs/examples/serve.c $(wildcard cli/main_*.c tests/*.[ch] tests/*/*.[ch] kernels/cuda/*.cu*) $(HEADERS)
## format: rewrite C and CUDA sources in the house's style (clang-format 14)
format:
	clang-format -i $(FORMATTED)
check-format:
	@clang-format --version | grep -q 'version 14' || { echo "skipped: clang-format 14 is the house's version"; exit 0; }; \
	clang-format -n -Werror $(FORMATTED) && echo "$(words $(FORMATTED)) files are in the house's style"

## golden: rewrite the transcripts under tests/cli/; review the difference
golden: $(B)/s2 $(B)/s2check $(B)/s2cert
	tests/cli/run.sh $(B) --write

## golden-tui: rewrite the screens under tests/golden/; review the difference
golden-tui: $(B)/tests/test_tui $(B)/tests/test_tui_pty
	S2_GOLDEN_WRITE=1 S2_TEST='every_view*' $(B)/tests/test_tui
	S2_GOLDEN_WRITE=1 S2_TEST='scripts*' $(B)/tests/test_tui_pty

## man: manual pages, made from the table of options, under build/man/
man: $(B)/s2
	@rm -rf build/man && mkdir -p build/man/man1
	@$< help --man > build/man/man1/s2.1 && $< help --man s2check > build/man/man1/s2check.1
	@$< help --man s2cert > build/man/man1/s2cert.1
	@for c in $$($< help --list); do $< help --man $$c > build/man/man1/s2-$$c.1 || exit 1; done
	@echo "$$(ls build/man/man1 | wc -l) pages under build/man/man1"

## completion: bash and zsh completion, made from the same table, under build/completion/
completion: $(B)/s2
	@mkdir -p build/completion
	@$< help --completion bash > build/completion/s2 && $< help --completion zsh > build/completion/_s2
	@echo "build/completion/s2 (bash), build/completion/_s2 (zsh)"

PREFIX  ?= /usr/local
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR  := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
MANDIR  := $(DESTDIR)$(PREFIX)/share/man/man1
## install: programs, manual pages and completion under PREFIX (/usr/local); DESTDIR for packagers
install: all man completion
	install -d $(DESTDIR)$(PREFIX)/bin $(MANDIR) $(BASHDIR) $(ZSHDIR)
	install -m 755 $(B)/s2 $(B)/s2check $(B)/s2cert $(DESTDIR)$(PREFIX)/bin
	install -m 644 build/man/man1/*.1 $(MANDIR)
	install -m 644 build/completion/s2 $(BASHDIR)/s2
	ln -sf s2 $(BASHDIR)/s2check
	install -m 644 build/completion/_s2 $(ZSHDIR)/_s2

## uninstall: what install put there
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,s2 s2check s2cert) $(MANDIR)/s2.1 $(MANDIR)/s2check.1 $(MANDIR)/s2cert.1 $(MANDIR)/s2-*.1 \
	    $(BASHDIR)/s2 $(BASHDIR)/s2check $(ZSHDIR)/_s2

## clean: remove build/
clean:
	rm -rf build

## help: this text
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(MAKEFILE_LIST) | sort | awk -F'\t' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: check-docs golden man completion install uninstall
.PHONY: formats pictures example fuzz-import all demo check quick setup setup-check tests check-format unit kcheck bench-gpu fuzz check-layers format clean help
.PHONY: all demo check quick setup setup-check tests check-format unit bench million power kcheck fuzz check-layers format clean help
.PHONY: bench-search bench-tui check-record check-select golden-tui mpi record-gpu record-pack sanitize-gpu soak-tui validate-gpu
