# What `make check` runs in part and nobody needs in a day's work: campaigns, recordings, benchmarks, pictures.
# The Makefile includes this file; paths are from the root.

##@ Checks that `make check` runs in part
# A campaign is open-ended: a random seed, SECONDS long, its corpus kept. SAMPLE=1 is what `make check` runs:
# a fixed seed and number of inputs from an empty corpus, the same in every run (addresses, where they may be fixed,
# are, and compared values are not fed back: some are addresses); a slow machine stops earlier.
SECONDS ?= 60
# A target is guided by the sources that it is there for and by what others are there for, so that nothing is compiled twice;
# what these call (PLAIN) is only watched by the sanitizers, and faster. Compared with their defaults, these forget freed memory sooner.
export ASAN_OPTIONS ?= quarantine_size_mb=8:malloc_context_size=6
FUZZ_C  := $(wildcard base/*.c pattern/*.c)
FUZZ_IMPORT_C = $(FUZZ_C) $(wildcard plan/*.c export/*.c)
FUZZ_CC  = $(CLANG) -std=c11 -D_GNU_SOURCE -I. -O1 -g1 -fsanitize=fuzzer $(if $(COVERED),-fprofile-instr-generate -fcoverage-mapping,$(SANITIZE))
FUZZ_PLAIN_CC = $(CLANG) -std=c11 -D_GNU_SOURCE -I. -O2 -g1 $(if $(COVERED),,$(SANITIZE))
CLANG   ?= clang
FUZZ_BIN = build/fuzz$(if $(COVERED),/covered)
FUZZ_RUN = $(if $(SAMPLE),-seed=1 -use_cmp=0 -use_memmem=0 -reload=0 -runs=$(1) -max_total_time=$(2) -timeout=120,-max_total_time=$(3) -timeout=10) \
           -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1
FUZZ_AT  = $(if $(SAMPLE),$(shell setarch -R true 2>/dev/null && echo setarch -R))
FUZZ_DIR = build/fuzz/$(if $(SAMPLE),sample,corpus)
FUZZ_FILES_C = $(FUZZ_C) $(wildcard plan/*.c db/*.c cert/*.c) search/space.c
FUZZ_FILES_PLAIN = $(filter-out $(FUZZ_FILES_C),$(wildcard coverage/*.c sim/*.c reach/*.c search/*.c))
FUZZ_SCREEN_C = $(FUZZ_C) $(wildcard plan/*.c) $(filter-out %_ncurses.c,$(wildcard tui/*.c))
FUZZ_SCREEN_PLAIN = $(wildcard coverage/*.c words/*.c reach/*.c sim/*.c)
FUZZ_OBJ = $(1:%.c=$(FUZZ_BIN)/obj/%.o)
FUZZ_PLAIN = $(1:%.c=$(FUZZ_BIN)/plain/%.o)
$(FUZZ_BIN)/obj/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(FUZZ_CC) -Wno-overlength-strings -c $< -o $@
$(FUZZ_BIN)/plain/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(FUZZ_PLAIN_CC) -Wno-overlength-strings -c $< -o $@
$(FUZZ_BIN)/fuzz_parse: $(call FUZZ_OBJ,tests/fuzz/fuzz_parse.c $(FUZZ_C))
	$(FUZZ_CC) $^ -o $@ -l:libjansson.a $(LIBS_CORE)
$(FUZZ_BIN)/fuzz_import: $(call FUZZ_OBJ,tests/fuzz/fuzz_import.c $(FUZZ_IMPORT_C))
	$(FUZZ_CC) $^ -o $@ -l:libjansson.a -l:libyaml.a -l:libpng.a -l:libz.a $(LIBS_CORE)
$(FUZZ_BIN)/fuzz_files: $(call FUZZ_OBJ,tests/fuzz/fuzz_files.c $(FUZZ_FILES_C)) $(call FUZZ_PLAIN,$(FUZZ_FILES_PLAIN)) $(O)/sim/texts.c
	$(FUZZ_CC) -Wno-overlength-strings -Wl,--wrap=s2_db_open $^ -o $@ -l:libsqlite3.a -l:libjansson.a $(LIBS_CORE) -ldl
$(FUZZ_BIN)/fuzz_screen: $(call FUZZ_OBJ,tests/fuzz/fuzz_screen.c $(FUZZ_SCREEN_C)) $(call FUZZ_PLAIN,$(FUZZ_SCREEN_PLAIN)) $(O)/sim/texts.c
	$(FUZZ_CC) -Wno-overlength-strings $^ -o $@ -l:libjansson.a $(LIBS_CORE)
fuzz-programs: $(addprefix $(FUZZ_BIN)/fuzz_,parse import files screen) build/fuzz/seeds/files
## fuzz: libFuzzer on the parser, with round trip, at random (clang; SECONDS=60; SAMPLE=1: the same inputs every time)
fuzz: build/fuzz/fuzz_parse
	@$(if $(SAMPLE),rm -rf $(FUZZ_DIR)/parse;) mkdir -p $(FUZZ_DIR)/parse
	$(FUZZ_AT) $< $(call FUZZ_RUN,400000,60,$(SECONDS)) -max_len=65536 -artifact_prefix=build/fuzz/ -dict=tests/fuzz/pattern.dict \
	  $(FUZZ_DIR)/parse $$(tests/fuzz/seeds.sh parse)
## fuzz-import: libFuzzer on every importer, one target each, at random (clang; SECONDS=60 together; F=hf for one; SAMPLE=1 as above)
IMPORTERS = $(or $(F),$(shell sed -n 's/^ *X(\([a-z0-9]*\)).*/\1/p' export/registry.c) any)
fuzz-import: build/fuzz/fuzz_import
	@n=0; each=$$(( $(SECONDS) / $(words $(IMPORTERS)) )); [ $$each -gt 0 ] || each=1; \
	for f in $(IMPORTERS); do \
	  $(if $(SAMPLE),rm -rf $(FUZZ_DIR)/$$f;) mkdir -p $(FUZZ_DIR)/$$f; ln -f $< build/fuzz/fuzz_import_$$f; \
	  $(FUZZ_AT) build/fuzz/fuzz_import_$$f $(call FUZZ_RUN,1000,2,$$each) -max_len=16384 -artifact_prefix=build/fuzz/$$f- \
	    $(FUZZ_DIR)/$$f $$(tests/fuzz/seeds.sh $$f) >build/fuzz/$$f.log 2>&1 || \
	    { cat build/fuzz/$$f.log; echo "fuzz-import: $$f failed"; exit 1; }; \
	  runs=$$(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/$$f.log); n=$$((n + 1)); \
	  printf '%-14s %s inputs\n' $$f "$$runs"; \
	done; echo "$$n importers survived"; $(if $(F),,[ $$n -gt 1 ] || { echo "fuzz-import: no table of formats in export/registry.c"; exit 1; })
# Seeds are made by the programs themselves: canonical texts, spaces, arrays and a small database.
build/fuzz/seeds/files: $(B)/s2
	@rm -rf $@ && mkdir -p $@/cert $@/space $@/npy $@/db && for f in tests/data/patterns/*.s2; do \
	  $(B)/s2 show $$f --canonical >$@/cert/$$(basename $$f) 2>/dev/null; cp $$f $@/space/; done; \
	cp tests/data/foreign/npy/*.npy $@/npy/ 2>/dev/null; \
	$(B)/s2 --db $@/db/small.db check 'heads 2; layers all: local 2 | stride 2 phase head' >/dev/null; \
	cp $@/db/small.db $@/db/full.db; s='name two; heads 2; kv-heads 1; head-dim 64; layers all: local 2 | stride 2 phase head'; \
	for c in 'sim -n 2k' 'sim -n 2k -p decode' 'validate -n 256' 'check --require shards'; do \
	  $(B)/s2 --db $@/db/full.db $$c "$$s" >/dev/null || exit 1; done; \
	$(B)/s2 --db $@/db/full.db search -n 2k 'heads 2; head-dim 64; layers all: local {1..4} | stride {2,4} phase head' >/dev/null; \
	rm -f $@/db/*-lock; for f in $@/db/*.db; do \
	  python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); [list(d.execute(s)) for s in ("PRAGMA journal_mode=delete", "PRAGMA page_size=512", "VACUUM")]' $$f; done; \
	python3 tests/fuzz/databases.py $@/db/small.db
## fuzz-files: libFuzzer on certificates, spaces, arrays and databases (clang; SECONDS=60 together; F=db for one; SAMPLE=1 as above)
FUZZ_KINDS = $(or $(F),cert space npy db)
fuzz-files: build/fuzz/fuzz_files build/fuzz/seeds/files
	@each=$$(( $(SECONDS) / $(words $(FUZZ_KINDS)) )); [ $$each -gt 0 ] || each=1; \
	for f in $(FUZZ_KINDS); do \
	  $(if $(SAMPLE),rm -rf $(FUZZ_DIR)/$$f;) mkdir -p $(FUZZ_DIR)/$$f; ln -f $< build/fuzz/fuzz_files_$$f; \
	  $(FUZZ_AT) build/fuzz/fuzz_files_$$f $(call FUZZ_RUN,20000,10,$$each) -max_len=300000 -artifact_prefix=build/fuzz/$$f- $$(ls tests/fuzz/$$f.dict 2>/dev/null | sed 's/^/-dict=/') \
	    $(FUZZ_DIR)/$$f build/fuzz/seeds/files/$$f $$(ls -d tests/fuzz/corpus/$$f 2>/dev/null) >build/fuzz/$$f.log 2>&1 || \
	    { cat build/fuzz/$$f.log; echo "fuzz-files: $$f failed"; exit 1; }; \
	  printf '%-14s %s inputs\n' $$f "$$(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/$$f.log)"; \
	done; rm -f /dev/shm/s2-fuzz-*
## fuzz-screen: libFuzzer on what a terminal hands over: keys, clicks, pasted text, sizes (clang; SECONDS=60; SAMPLE=1 as above)
fuzz-screen: build/fuzz/fuzz_screen
	@$(if $(SAMPLE),rm -rf $(FUZZ_DIR)/screen;) mkdir -p $(FUZZ_DIR)/screen
	$(FUZZ_AT) $< $(call FUZZ_RUN,200,15,$(SECONDS)) -max_len=1024 -artifact_prefix=build/fuzz/ $(FUZZ_DIR)/screen tests/fuzz/corpus/screen
## fuzz-campaign: all targets at once for SECONDS, a process each of LANES, rows with curves in build/fuzz/campaign (clang; tests/fuzz/campaign.py says how)
LANES ?= screen db any cert parse space,npy $(shell sed -n 's/^ *X(\([a-z0-9]*\)).*/\1/p' export/registry.c | paste -sd,)
fuzz-campaign: fuzz-programs
	COMMIT=$$(git describe --always --dirty --abbrev=12) python3 tests/fuzz/campaign.py build/fuzz build/fuzz/campaign $(SECONDS) $(LANES)
## fuzz-coverage: lines of its sources that each target's corpus reaches (clang and llvm; run the campaigns first; F='db npy': only these)
fuzz-coverage: build/fuzz/seeds/files
	@$(MAKE) -s COVERED=1 fuzz-programs
	@sh tests/fuzz/coverage.sh build/fuzz/covered $(F); rm -f /dev/shm/s2-fuzz-*
## fuzz-table: the table of fuzz targets in docs/trust.md, from docs/results/fuzz.jsonl and fuzz-coverage.txt (CHECK=1: is it that?)
fuzz-table:
	python3 tests/fuzz/table.py $(if $(CHECK),--check)
## check-record: that command with programs that only pretend to have a GPU
check-record:
	tests/bench/record_test.sh
## check-select: the device code of page selection on the host, its threads as fibers, under sanitizers (S2_SEED=N)
check-select: $(B)/select_host
	$< $(S2_SEED) 2>/dev/null
## check-decode: the same of the decode kernels, over keys of 16 and of eight bits
check-decode: $(B)/decode_host
	$< $(S2_SEED) 2>/dev/null
$(B)/select_host: kernels/cuda/select.cuh
$(B)/decode_host: kernels/cuda/decode.cuh kernels/cuda/decode_sm90.cuh
$(B)/select_host $(B)/decode_host: $(B)/%: tests/kcheck/%.cpp tests/kcheck/fibers.hpp kernels/cuda/decode_rows.cuh kernels/cuda/cap.cuh
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
# What tests/formats/fetch.sh DIR fetched; without, what is installed is used and the rest skipped.
CONSUMERS ?=
FORMATS_PYTHON = $(if $(CONSUMERS),$(CONSUMERS)/bin/python,python3)

## formats: foreign definitions and consumers' own code, against what s2 reads and exports; CONSUMERS=DIR, fetched before
formats: $(B)/s2
	python3 tests/formats/check_formats.py $(B)/s2
	$(FORMATS_PYTHON) tests/formats/consumers.py $(B)/s2 --sources "$(CONSUMERS)/src" || [ $$? = 77 ]
	$(FORMATS_PYTHON) tests/formats/habits.py $(B)/s2 || [ $$? = 77 ]
	$(FORMATS_PYTHON) tests/formats/weights.py $(B)/s2 || [ $$? = 77 ]
	$(FORMATS_PYTHON) tests/formats/stored.py $(B)/s2 || [ $$? = 77 ]
	$(FORMATS_PYTHON) tests/formats/truth.py $(B)/s2 --defaults --configs tests/data/configs || [ $$? = 77 ]
## example: build and run docs/examples/: count_pairs.c with exported headers (one of windows in tokens), a serving loop, a kernel of your own
EXAMPLES := phi3 tokens
EXAMPLE_phi3   = 'name phi-3-small-8k; layers 32; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1; layers 1::2: dense' --len 8k
EXAMPLE_tokens = 'name tokens; layers 2; heads 4; kv-heads 2; layers all: local 200t | sink 5t | stride 6 phase head; layers 1: chunk 100t' --len 4k --set tile=64 --set pack=2
example: $(B)/s2 $(EXAMPLES:%=example-%) $(B)/example/serve
	$(B)/example/serve
	tests/plug.sh $(B)/s2
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
## mpi: build with MPI=1 and test a job of 4 ranks on this machine against one process and 4 shards
mpi:
	@tests/setup.sh mpi
	@$(MAKE) -s -j$(JOBS) MPI=1 $(B)-mpi/s2
	@tests/mpi.sh $(B)-mpi/s2

##@ Campaigns: hours, random, resumable
## campaign-recover: rows saved of damaged databases by s2 and by sqlite3 (N=300, S2_SEED=N)
campaign-recover: $(B)/s2
	python3 tests/recover_compare.py $(B)/s2 $(or $(N),300) $(or $(S2_SEED),1)
## campaign-kill: processes killed while they write, create, migrate, back up, recover, merge, prune, tag and export, and whole commands killed at any moment, N of each (goes on where it stopped; N=10000, S2_SEED=N, MINUTES=N of each)
campaign-kill: $(B)/tests/test_faults $(B)/tests/test_everycall
	S2_TEST='killed*' CHUNK=625 CASES=$(or $(N),10000) tests/million.sh $(word 1,$^) build/kills.done $(or $(S2_SEED),700000)
	S2_TEST='*at_any_moment' CHUNK=440 CASES=$(or $(N),10000) tests/million.sh $(word 2,$^) build/kills.done $(or $(S2_SEED),700000)
## campaign-hostile: hostile patterns through every command (CASES=1000 S2_SEED=1): stated exit codes, 10 s, 1 GiB (MANY=24: so many in each command)
campaign-hostile: $(B)/s2
	@S2_CPU_SECONDS=$(or $(CPU_SECONDS),10) S2_MEMORY_MIB=1000 python3 tests/hostile.py $(B)/s2 $(if $(MANY),--many $(MANY),--cases $(or $(CASES),1000)) --seed $(or $(S2_SEED),1)
## campaign-crowd: eight writers, four readers and a screen on one database (MINUTES=60, S2_SEED=N)
campaign-crowd: $(B)/s2
	python3 tests/crowd.py $< $(or $(MINUTES),60) $(or $(S2_SEED),1)
## campaign-moving: files that are cut, overwritten and replaced while commands read them (MINUTES=10, S2_SEED=N)
campaign-moving: $(B)/s2
	python3 tests/moving.py $(B) $$(awk 'BEGIN { print 60 * $(or $(MINUTES),10) }') $(or $(S2_SEED),1)
## campaign-places: pipes, sockets, devices, folders, links in circles and odd names wherever a command takes a path (WORD=--db: only those)
campaign-places: $(B)/s2 $(B)/s2check $(B)/s2cert
	python3 tests/places.py $(B) 12 $(WORD)
## campaign-oracle: what s2 sim says of weights, memory, caches, links, ranks, stages, training, times around attention, hybrids, known methods and mixes of requests, worked out anew for models, designs and machines drawn at random (N=5000, S2_SEED=N)
campaign-oracle: $(B)/s2
	S2_CASES=$(or $(N),5000) python3 tests/oracle.py $(B)
## campaign-definition: what commands say of random patterns, by a third reading of docs/pattern-language.md: verdicts, masks, pictures, differences, exports, reach, cache (N=2000, S2_SEED=N)
campaign-definition: $(B)/s2 $(B)/s2check
	S2_CASES=$(or $(N),2000) python3 tests/definition.py $(B)
## campaign-python: everything that is public in the package, called with anything, NumPy and torch (MINUTES=60 of each, S2_SEED=N; S2_PYTHON=FILE: with torch)
campaign-python: wheel
	S2_MINUTES=$(or $(MINUTES),60) S2_SEED=$(or $(S2_SEED),$(shell date +%s)) S2_TEST=public tests/python/run.sh build/wheel
## campaign-faults: every system call of every command, and an allocation of each call stack, fails once, in parts (goes on where it stopped; MINUTES=N, PARTS=20; N=200: so many of each command; S2_TEST='allocations*': any allocation; S2_PART=I/N: one share; S2_COMMAND=draw)
SWEEPS = $(if $(S2_TEST),'$(S2_TEST)','system_calls*' 'each_stack*')
campaign-faults: $(B)/tests/test_everycall
	$(if $(S2_PART),S2_CASES=$(or $(N),1000000) S2_SKIP='$(if $(S2_TEST),,allocations*)' $<,set -e; \
	  for sweep in $(SWEEPS); do S2_CASES=$(or $(N),1000000) tests/parts.sh $< build/faults.done $(or $(PARTS),20) "$$sweep"; done)
## campaign-cert: certificates changed at random and texts made to fool, N of each, against the prover and plain enumeration (N=1000000, S2_SEED=N)
campaign-cert: $(B)/tests/test_forgery
	S2_CASES=$(or $(N),1000000) S2_TEST='no_*' $<
## campaign-forge: claims of patterns that three more generators draw, N of each, against their own definitions: near the first tokens, far away with texts changed at random, and certificates changed anywhere and read again (N=1000000, S2_SEED=N, KINDS=read; far needs NumPy)
FORGERS = near far read
campaign-forge: $(B)/s2 $(B)/s2cert $(B)/s2check
	@for kind in $(or $(KINDS),$(FORGERS)); do python3 tests/forge/$$kind.py $(B) $(or $(N),1000000) $(or $(S2_SEED),1) || [ $$? = 77 ] || exit 1; done
## million: the prover against enumeration on a million patterns of each kind per seed (hours; goes on where it stopped, MINUTES=N)
MILLION_SEEDS ?= 10000000 20000000 30000000
million: $(B)/tests/test_prove
	tests/million.sh $< build/million.done $(MILLION_SEEDS)

$(B)/tests/bench/bench_db: $(O)/tests/bench/bench_db.c.o $(O)/libs2.a
	$(CC) $(CFLAGS) $^ -o $@ $(LIBS) $(LIBS_CUDA)
## power: simulated power cuts while a database works (CUTS=100000; about 10 ms each)
CUTS ?= 100000
power: $(B)/tests/test_power
	S2_CASES=$(CUTS) $<
## soak-tui: 100 000 random keys and sizes a seed beside a writer, under asan (KEYS=N SEEDS="1 2")
KEYS  ?= 100000
SEEDS ?= 1 2 3
soak-tui:
	@$(MAKE) -s BUILD=asan CUDA=0 build/asan-nocuda/tests/test_tui_pty build/asan-nocuda/tests/test_tui build/asan-nocuda/s2
	@for seed in $(SEEDS); do \
	  S2_SEED=$$seed S2_CASES=$(KEYS) S2_TEST='random_keys*' build/asan-nocuda/tests/test_tui || exit 1; \
	  S2_SEED=$$seed S2_SOAK=$(KEYS) S2_TEST='random_keys*' build/asan-nocuda/tests/test_tui_pty || exit 1; done

## campaign-tui: pictures cell by cell, panels, list and front against definition and commands (N=10000, S2_SEED=N)
campaign-tui: $(B)/tests/test_tui_masks $(B)/tests/test_explorer
	S2_CASES=$(or $(N),10000) $(B)/tests/test_tui_masks
	S2_CASES=$$(( $(or $(N),10000) * 10 )) S2_TEST='*_what_the_commands_print' $(B)/tests/test_explorer
	S2_CASES=$$(( $(or $(N),10000) / 2 )) S2_TEST='the_*command*' $(B)/tests/test_explorer

##@ On a machine with a GPU
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
## sanitize-gpu: compute-sanitizer's four tools over a part of kcheck on this GPU
sanitize-gpu: $(B)/kcheck $(B)/kcheck_lanes $(B)/relay
	JOBS=$(JOBS) tests/kcheck/sanitize.sh $(B)/kcheck $(B)/kcheck_lanes $(B)/relay
$(B)/relay: tests/kcheck/relay.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a $< -o $@

##@ Speed on this machine
## bench-steps: what lists and places of decode steps cost the host, made anew and followed
bench-steps: $(B)/bench_steps
	$<
## bench: print how fast verdicts and prices come (docs/proof.md, docs/simulator.md); judges nothing
bench: $(B)/tests/bench/bench_prove $(B)/s2check $(B)/tests/test_sim
	$< $(B)/s2check "$$(git describe --always --dirty 2>/dev/null || echo unknown)"
	@S2_CASES=5 $(B)/tests/test_sim 2>/dev/null | sed -n 's/^# s2: \(candidates.*\)/\1/p'
## bench-db: a database of a million designs (DESIGNS=N), and what a page and a filter of it cost
DESIGNS ?= 1000000
bench-db: $(B)/tests/bench/bench_db $(B)/s2
	@mkdir -p build/bench
	$< $(B)/s2 build/bench/designs-$(DESIGNS).db $(DESIGNS)
## bench-search: a million candidates for Llama-3.1-8B at 128k, on all cores
bench-search: $(B)/s2
	$< search 'block {16,32,64,128}; layers all: local {1..64} | sink {1..4} | stride {2..32} phase {head,kv}*{1,3}+{0..3}; {,layers 1::2: dense}' \
	  --model llama-3.1-8b --len 128k --phase prefill,decode --no-db
## screens-tui: every view as PNG in build/screens/, three sizes, dark, light and ASCII
screens-tui: $(B)/s2
	tests/screens.sh $(B) build/screens
## bench-tui: keys through a terminal with a million designs (DESIGNS=N); minutes, most of them to make the file
bench-tui: $(B)/tests/test_tui_pty
	S2_DESIGNS=$(DESIGNS) S2_TEST='keys_are_timed' $<

##@ Documentation
## pictures: draw docs/pictures/ anew
pictures: $(B)/s2
	tests/pictures.sh $(B)
