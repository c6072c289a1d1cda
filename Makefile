# Makefile - builds, tests and installs firn. `make help` lists the targets.
#
# Files are found by wildcard, header dependencies come from -MMD, and the
# version is read from include/firn/version.h. Everything made lies under
# $(BUILD). The flags in use are kept in $(BUILD)/flags; when they change,
# everything in that folder is made again, so CC=clang or OPT=-O0 just works.
# A second set of flags lives beside the first when it is given a folder of
# its own: `make BUILD=build/O0 OPT=-O0`.

# Without make's own rules: it would try them on every header, 0.5 s a call.
MAKEFLAGS += -r
ifeq ($(origin CC),default)
CC := gcc
endif
BUILD  ?= build
OPT    ?= -O2
DEBUG  ?= -g1
WERROR ?= -Werror
SAN    ?=
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_S ?= 1
V      ?= 0

version = $(shell sed -n 's/^.define FIRN_VERSION_$(1) *//p' \
            include/firn/version.h)
MAJOR   := $(call version,MAJOR)
VERSION := $(MAJOR).$(call version,MINOR).$(call version,PATCH)

# --- flags -----------------------------------------------------------------

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wconversion
FLAGS := -std=c17 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc $(OPT) $(DEBUG) \
         -ffp-contract=off -fvisibility=hidden -fPIC $(WARN)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all \
              -fno-omit-frame-pointer $(TRAP))
ALL_CFLAGS := $(FLAGS) $(SANFLAGS) $(CPPFLAGS) $(CFLAGS)
TESTINC := -I. -Itests -Itests/lib
PKGFLAGS := $(shell pkg-config --cflags libcyaml cminpack lapack 2>/dev/null)
# Trainers need libc alone; with libcurl they report over HTTP, with libsodium a
# group of them may span several hosts.
CURL := $(shell pkg-config --exists libcurl 2>/dev/null && echo yes)
SODIUM := $(shell pkg-config --exists libsodium 2>/dev/null && echo yes)
ZLIB := $(shell pkg-config --exists zlib 2>/dev/null && echo yes)
TRAINLIBS := $(if $(CURL),$(shell pkg-config --libs libcurl)) \
             $(if $(SODIUM),$(shell pkg-config --libs libsodium)) -lm -lpthread
ifdef CURL
PKGFLAGS += -DFIRN_WITH_CURL
endif
ifdef SODIUM
PKGFLAGS += -DFIRN_WITH_SODIUM $(shell pkg-config --cflags libsodium)
endif
LIBS := $(or $(shell pkg-config --libs libcyaml 2>/dev/null),-lcyaml -lyaml) \
        -lcminpack -llapack $(TRAINLIBS) -ldl

# --- files -----------------------------------------------------------------

LIBDIRS := base math wire model train core policy trace engine sim compat
LIBSRC  := $(sort $(wildcard $(LIBDIRS:%=src/%/*.c)) $(LIBMORE))
# The commands that call firnd need libcurl and jansson. If one is missing, firn
# is built without these commands, and make prints a notice.
CLIENTLACKS := $(strip $(foreach p,libcurl jansson,$(shell \
                 pkg-config --exists $(p) 2>/dev/null || echo $(p))))
CLIENTLIBS := $(if $(CLIENTLACKS),,$(shell pkg-config --libs jansson libcurl))
PKGFLAGS += $(if $(CLIENTLACKS),-DFIRN_WITHOUT_CLIENT)
CLIENTSRC := $(wildcard src/cli/client*.c src/cli/live*.c src/cli/answer.c \
               src/cli/curlcalls.c src/cli/topmodel.c src/cli/toppage.c) \
             $(patsubst %,src/cli/cmd_%.c,attach board cancel drain eta events hold logs ls \
               nodes plan policy priority release resize run show submit token \
               top undrain wait whatif why)
CLISRC  := $(sort $(filter-out $(if $(CLIENTLACKS),$(CLIENTSRC)), \
             $(wildcard src/cli/*.c src/repro/*.c)))
# firnd needs more libraries. If one is missing, all else is built, and make
# prints a notice. Tests of the daemon are linked with an archive of its files.
DAEMONPKGS := sqlite3 libuv libmicrohttpd jansson libsodium
DAEMONLACKS := $(strip $(foreach p,$(DAEMONPKGS),$(shell \
                 pkg-config --exists $(p) 2>/dev/null || echo $(p))))
DAEMONLIBS := $(if $(DAEMONLACKS),,$(shell pkg-config --libs $(DAEMONPKGS)) \
                $(if $(ZLIB),-lz))
PKGFLAGS += $(if $(DAEMONLACKS),,$(shell pkg-config --cflags $(DAEMONPKGS)))
DAEMONMAIN := $(if $(DAEMONLACKS),,$(wildcard src/daemon/main.c))
DAEMONSRC := $(if $(DAEMONLACKS),,$(sort $(filter-out src/daemon/main.c, \
               $(wildcard src/daemon/*.c))))
DAEMONFUZZ := $(patsubst %,tests/fuzz/fuzz_%.c,jobfile config store api)
DAEMONUSERS := tests/daemon/% tests/fault/% bench/store.c bench/queue.c \
               bench/submit.c bench/restart.c \
               $(DAEMONFUZZ)
# libfirn_train is linked into users' programs: the files of train and wire, and
# the few files below them that need libc alone.
TRAINSRC := $(sort $(wildcard src/train/*.c src/wire/*.c)) \
            $(addprefix src/,base/status.c base/fmath.c base/rng.c \
              base/str.c base/utf8.c base/jsonread.c base/jsonwrite.c \
              model/freeze.c model/transfer.c)
# libfirn_d2 is preloaded in front of a BLAS: matrix products with fixed bits.
BLASSRC := $(sort $(wildcard src/blas/*.c))
TLIBSRC := $(sort $(wildcard tests/lib/*.c))
with_libs = $(filter-out $(if $(DAEMONLACKS),$(DAEMONUSERS)) \
              $(if $(CLIENTLACKS),tests/cli/test_commands%),$(1))
TESTSRC := $(call with_libs,$(sort $(wildcard tests/*/test_*.c)))
# The example trainers: a program for each main_*.c.
EXSRC   := $(sort $(filter-out examples/main_%,$(wildcard examples/*.c)))
EXMAINS := $(sort $(wildcard examples/main_*.c))
BENCHSRC := $(call with_libs,$(sort $(wildcard bench/*.c)))
FUZZSRC := $(call with_libs,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
HEADERS := $(sort $(wildcard include/firn/*.h))
CFILES  := $(sort $(wildcard include/firn/*.h src/*/*.[ch] tests/*/*.[ch] \
             bench/*.[ch] examples/*.[ch]))

# The longest tests run first, so that none is left running alone at the end.
SLOW  := %/test_conserve %/test_models %/test_truth_table %/test_priced %/test_fit_error \
         %/test_profile_files %/test_kill %/fault/test_slurm \
         %/test_calls %/test_shepherds %/daemon/test_restart \
         %/engine/test_slurm %/engine/test_slurm_live %/174-planted-policies-fail.sh \
         %/290-board-in-a-browser.sh %/931-every-compiler-sums-alike.sh \
         %/960-commands-of-the-pages-run.sh %/910-determinism.sh \
         %/935-pytorch-runs-are-the-same-bits.sh \
         %/golden/remake.sh %/300-slurm-runs-the-live-suite.sh \
         %/320-slurm-pytorch-over-nodes.sh %/360-slurm-on-hosts-of-their-own.sh
first = $(filter $(1),$(2)) $(filter-out $(1),$(2))

# Tests that wait, for processes, timers or Slurm, during most of their time:
# they run beside those that compute. Measured: wall time is at least twice the
# processor time on an idle machine.
WAITS := fault/% engine/test_adopt engine/test_childcmd engine/test_local% \
         engine/test_shepherd% engine/test_slurm% engine/test_unknown \
         cli/test_pool train/test_group% train/test_report% train/test_stop% \
         $(patsubst %,daemon/test_%,api_limit http http_crowd http_sock \
           foreign http_stream loop loop_signal loop_wait merge notify partner \
           restart retain steady store_kill)
waiting = $(filter $(WAITS:%=$(BUILD)/tests/%) tests/e2e/2% tests/e2e/3% \
            tests/e2e/92% tests/e2e/95% tests/e2e/96%,$(1))

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIBOBJ  := $(call obj,$(LIBSRC))
TRAINOBJ := $(call obj,$(TRAINSRC))
BLASOBJ := $(call obj,$(BLASSRC))
CLIOBJ  := $(call obj,$(CLISRC))
DAEMONOBJ := $(call obj,$(DAEMONSRC))
TLIBOBJ := $(call obj,$(TLIBSRC))
TESTS   := $(call first,$(SLOW),$(TESTSRC:tests/%.c=$(BUILD)/tests/%))
BENCHES := $(BENCHSRC:%.c=$(BUILD)/%)
EXAMPLES := $(EXMAINS:examples/main_%.c=$(BUILD)/examples/%)

# fuzz_trace.c is one program with a name for each line of traces.def.
FORMATS := $(if $(filter tests/fuzz/fuzz_trace.c,$(FUZZSRC)),$(shell \
             sed -n 's/^TRACE(\([a-z0-9_]*\)[,)].*/\1/p' src/trace/traces.def))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(filter-out \
             %/fuzz_trace.c,$(FUZZSRC))) $(FORMATS:%=$(BUILD)/fuzz_trace_%)

# Shell tests, in the order of their numbers. Those from 900 on build something
# themselves and are run once only, not under a sanitizer.
STYLE := tools/check_layers.sh tools/check_headers.sh tools/check_style.sh \
         tools/check_circles.sh tools/check_commits.sh
E2E   := $(call first,$(SLOW),$(sort $(wildcard tests/e2e/*.sh \
           tests/golden/*.sh)))
# Tests that start a Slurm mostly wait: under a sanitizer only the first runs. Three
# with many simulations took 13.5 of 211 s there: they are left to `make soak`.
E2E_SAN := $(filter-out tests/e2e/9% tests/golden/% $(if $(FIRN_SOAK),, \
             tests/e2e/31% tests/e2e/32% tests/e2e/33% tests/e2e/35% \
             tests/e2e/36% tests/e2e/080% tests/e2e/166% tests/e2e/174%),$(E2E))

# --- how a command is shown ------------------------------------------------

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),@:,@printf '  %-4s %s\n')
MAKEFLAGS += --no-print-directory
endif
# run TESTS: tests that wait run beside the others, three more than cores. One
# with processes and timers that failed is run once more, alone.
RUN := tools/run_tests.sh -j $(JOBS)
timed = $(call waiting,$(1)) $(filter tests/e2e/05% tests/e2e/09%,$(1)) \
        $(filter $(BUILD)/tests/train/% $(BUILD)/tests/cli/test_commands%,$(1))
run = $(RUN) -m $$(($(JOBS) + 3)) '$(call waiting,$(1))' \
      -r '$(sort $(call timed,$(1)))' $(1)
export CC
export FIRN := $(abspath $(BUILD)/firn)
export FIRN_BUILD := $(BUILD)

# --- build -----------------------------------------------------------------

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

SO := libfirn.so.$(VERSION)
TRAINSO := libfirn_train.so.$(VERSION)
all: $(if $(CLISRC),$(BUILD)/firn) $(BUILD)/libfirn.a $(BUILD)/$(SO) train \
     d2 $(EXAMPLES) firnd $(BUILD)/firn-launch
train: $(BUILD)/libfirn_train.a $(BUILD)/$(TRAINSO)
	$(if $(SODIUM),,$(Q)echo 'libsodium is missing: libfirn_train is built \
	    without groups of processes on several hosts')
d2: $(BUILD)/libfirn_d2.a $(BUILD)/libfirn_d2.so
firn: $(BUILD)/firn
firnd: $(if $(DAEMONMAIN),$(BUILD)/firnd,$(if $(DAEMONSRC),$(BUILD)/libfirnd.a))
	$(if $(DAEMONLACKS),$(Q)echo 'firnd is not built: $(DAEMONLACKS) is missing')
tests: $(TESTS)
benches: $(BENCHES)

# firn and firnd have the whole library in them and export its public names:
# a policy in a shared object (firn_policy_load) finds them there. What is for
# trainers only is left out: it would load libcurl at every start of firn.
PARTS := $(BUILD)/libfirn-parts.a
WITH_PLUGINS := -rdynamic $(filter-out $(BUILD)/obj/src/train/%,$(LIBOBJ)) \
                $(PARTS)

$(BUILD)/firn: $(CLIOBJ) $(PARTS)
	$(say) LD $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(CLIOBJ) $(WITH_PLUGINS) \
	    -Wl,--as-needed $(CLIENTLIBS) $(LIBS)
	$(if $(CLIENTLACKS),$(Q)echo \
	    'the commands for firnd are left out: $(CLIENTLACKS) is missing')

$(BUILD)/firnd: $(call obj,$(DAEMONMAIN)) $(BUILD)/libfirnd.a $(PARTS)
	$(say) LD $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(filter-out $(PARTS),$^) \
	    $(WITH_PLUGINS) $(DAEMONLIBS) $(LIBS)

# The one program that runs as root: nothing is in it but what it needs.
LAUNCHSRC := $(wildcard src/launch/*.c) \
             $(patsubst %,src/engine/%.c,identity launchmsg launchslurm procs) \
             $(patsubst %,src/base/%.c,arena buf clock failpoint log mem status str \
               utf8)
$(BUILD)/firn-launch: $(call obj,$(LAUNCHSRC))
	$(say) LD $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lm

$(BUILD)/libfirnd.a: $(DAEMONOBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar qcs $@ $^

# For our own programs and tests, which use internal functions. Made afresh each
# time, and by q, not r: two files may have the same name.
$(PARTS): $(LIBOBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar qcs $@ $^

# For programs of others: one object in which every hidden name is local, so
# that a program's own `log_info` neither clashes with ours nor takes its place.
hide_names = $(LD) -r -o $@.o $^ && objcopy --localize-hidden $@.o && \
    rm -f $@ && ar qcs $@ $@.o && rm -f $@.o
$(BUILD)/libfirn.a: $(LIBOBJ)
	$(say) AR $@
	$(Q)$(hide_names)

$(BUILD)/$(SO): $(LIBOBJ)
	$(say) LD $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared \
	    -Wl,-soname,libfirn.so.$(MAJOR) -o $@ $^ $(LIBS)
	$(Q)ln -sf $(SO) $(BUILD)/libfirn.so.$(MAJOR)
	$(Q)ln -sf libfirn.so.$(MAJOR) $(BUILD)/libfirn.so

$(BUILD)/libfirn_train.a: $(TRAINOBJ)
	$(say) AR $@
	$(Q)$(hide_names)

$(BUILD)/$(TRAINSO): $(TRAINOBJ)
	$(say) LD $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared \
	    -Wl,-soname,libfirn_train.so.$(MAJOR) -o $@ $^ $(TRAINLIBS)
	$(Q)ln -sf $(TRAINSO) $(BUILD)/libfirn_train.so.$(MAJOR)
	$(Q)ln -sf libfirn_train.so.$(MAJOR) $(BUILD)/libfirn_train.so

$(BUILD)/libfirn_d2.a: $(BLASOBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar qcs $@ $^

$(BUILD)/libfirn_d2.so: $(BLASOBJ)
	$(say) LD $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libfirn_d2.so \
	    -o $@ $^

$(BUILD)/obj/src/blas/%.o: private ALL_CFLAGS += $(if $(SAN),,-O3)
$(filter $(BUILD)/tests/blas/%,$(TESTS)): $(BUILD)/libfirn_d2.a

# The tests are as long as the library, and little in them takes long: a compiler
# spends a third of the time on them without optimisation, and UBSan looks at the
# library only. What they share has slow but simple solutions: -O1.
TESTOPT := $(if $(filter -O2,$(OPT)),-O0 -g1)
TESTLIBOPT := $(if $(filter -O2,$(OPT)),-O1 -g1)
TESTSAN := $(if $(findstring undefined,$(SAN)),-fno-sanitize=undefined)
$(BUILD)/obj/bench/%.o: private ALL_CFLAGS += $(TESTINC)
$(BUILD)/obj/tests/lib/%.o: private ALL_CFLAGS += $(TESTINC) $(TESTLIBOPT) \
  $(TESTSAN)
$(BUILD)/obj/tests/%.o: private ALL_CFLAGS += $(TESTINC) $(TESTOPT) $(TESTSAN)

# PLAIN: the folder of a build whose objects of the tests are taken as they are.
ifdef PLAIN
$(BUILD)/obj/tests/%.o: $(PLAIN)/obj/tests/%.o
	$(Q)mkdir -p $(@D) && ln -f $< $@
endif
$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(say) CC $<
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(PKGFLAGS) $(WERROR) -MMD -MP -c -o $@ $<

# -O3 vectorises, but keeps sums in the order in which they are written.
$(BUILD)/obj/examples/%.o: private ALL_CFLAGS += -Iexamples -O3 $(ZLIB_CFLAGS)
ZLIB_CFLAGS := $(if $(ZLIB),-DEXAMPLES_WITH_ZLIB)
# firnd compresses long answers if zlib is there.
$(BUILD)/obj/src/daemon/http_pack.o: private ALL_CFLAGS += \
  $(if $(ZLIB),-DFIRN_WITH_ZLIB)
$(BUILD)/examples/%: $(BUILD)/obj/examples/main_%.o $(call obj,$(EXSRC)) \
  $(BUILD)/libfirn_train.a
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(if $(ZLIB),-lz) $(TRAINLIBS)

# Files as strings: name, lines, NULL; see files_shipped() in base/files.h.
STRINGS = awk 'FNR == 1 { if (NR > 1) print "NULL,"; \
        print "\"" FILENAME "\"," } \
    { gsub(/["\\]/, "\\\\&"); print "\"" $$0 "\"," } \
    END { if (NR > 0) print "NULL," }' $(filter-out Makefile,$^) /dev/null

PROFILES := $(sort $(wildcard profiles/*/*.txt))
PAPERS   := $(sort $(wildcard papers/*.yaml))
$(BUILD)/gen/model/profiles.inc: $(PROFILES)
$(BUILD)/gen/repro/papers.inc: $(PAPERS)
# The board, which firnd serves: src/board as C.
BOARD := $(sort $(wildcard src/board/*.html src/board/*.css src/board/*.js \
           src/board/*.svg))
$(BUILD)/gen/daemon/board.inc: tools/board_files.sh $(BOARD)
	$(say) GEN $@
	$(Q)mkdir -p $(@D)
	$(Q)tools/board_files.sh $(BOARD) >$@
$(BUILD)/obj/src/daemon/boardfiles.o: private ALL_CFLAGS += -I$(BUILD)/gen
$(BUILD)/obj/src/daemon/boardfiles.o: $(BUILD)/gen/daemon/board.inc
$(BUILD)/gen/%.inc: Makefile
	$(say) GEN $@
	$(Q)mkdir -p $(@D)
	$(Q)$(STRINGS) >$@
$(BUILD)/obj/src/model/profile_load.o: private ALL_CFLAGS += -I$(BUILD)/gen
$(BUILD)/obj/src/model/profile_load.o: $(BUILD)/gen/model/profiles.inc
$(BUILD)/obj/src/repro/reproshelf.o: private ALL_CFLAGS += -I$(BUILD)/gen
$(BUILD)/obj/src/repro/reproshelf.o: $(BUILD)/gen/repro/papers.inc

# Shared by the tests. As an archive: a test is linked with the files that it
# uses only, so it links and, under valgrind, starts in a fraction of the time.
$(BUILD)/libtest.a: $(TLIBOBJ)
	$(say) AR $@
	$(Q)rm -f $@ && ar qcs $@ $^

# There are hundreds of tests: they are linked by the fastest linker found.
TESTLD := $(firstword $(foreach ld,lld gold,$(if $(shell \
            command -v ld.$(ld)),-fuse-ld=$(ld))))
link_test = $(CC) $(ALL_CFLAGS) $(TESTLD) $(LDFLAGS) -o $@ $^ -Wl,--as-needed -lcmocka \
    $(LIBS)

# Tests of the examples are linked with them.
$(BUILD)/obj/tests/examples/%.o: private ALL_CFLAGS += -Iexamples
$(BUILD)/tests/examples/%: $(BUILD)/obj/tests/examples/%.o \
  $(call obj,$(EXSRC)) $(BUILD)/libtest.a $(PARTS)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(link_test) $(if $(ZLIB),-lz)

# A fake of NVIDIA's library, which firnd loads where there is no driver.
FAKENVML := $(BUILD)/tests/fake/libnvidia-ml.so.1
$(FAKENVML): $(BUILD)/obj/tests/lib/fakenvml.o
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $^

# Looks at jobs for the shell tests, in one process for all looks.
ASKFIELD := $(BUILD)/tests/askfield
$(ASKFIELD): $(BUILD)/obj/tests/e2e/askfield.o
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^

# What the shell tests need beside the programs.
E2EPROGS := $(FAKENVML) $(ASKFIELD)

# Delays calls of the processes of a test: `make slow`.
SLOWCALLS := $(BUILD)/tests/slow/slowcalls.so
$(SLOWCALLS): $(BUILD)/obj/tests/slow/slowcalls.o
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $^ -ldl

# Makes calls of a program fail, one after the other: tests/fault.
FAULTCALLS := $(BUILD)/tests/fault/faultcalls.so
$(FAULTCALLS): $(BUILD)/obj/tests/fault/faultcalls.o
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $^ -ldl

DAEMONTLIB := $(call obj,$(filter-out tests/daemon/test_%, \
                $(wildcard tests/daemon/*.c)))
$(BUILD)/libfirndtest.a: $(DAEMONTLIB)
	$(say) AR $@
	$(Q)rm -f $@ && ar qcs $@ $^

$(BUILD)/tests/daemon/%: $(BUILD)/obj/tests/daemon/%.o \
  $(BUILD)/libfirndtest.a $(BUILD)/libfirnd.a $(BUILD)/libtest.a \
  $(PARTS)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(link_test) $(DAEMONLIBS)

# The conformance suite of policies with the library, for a policy that another
# program brings: tests/python/test_sim.py loads it.
CONFORMANCE := $(BUILD)/tests/conformance.so
$(CONFORMANCE): $(BUILD)/obj/tests/policy/test_all.o $(BUILD)/libtest.a \
  $(LIBOBJ)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(link_test) -shared

# These tests run firn and firnd themselves.
$(filter $(BUILD)/tests/cli/test_commands%,$(TESTS)): | $(BUILD)/firn
$(filter $(BUILD)/tests/fault/%,$(TESTS)): | $(BUILD)/firnd $(FAULTCALLS) \
  $(EXAMPLES)

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libtest.a $(PARTS)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(link_test)

$(BUILD)/bench/store $(BUILD)/bench/queue $(BUILD)/bench/submit \
$(BUILD)/bench/restart: \
  $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libfirndtest.a \
  $(BUILD)/libfirnd.a $(BUILD)/libtest.a $(PARTS)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(link_test) $(DAEMONLIBS)

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libtest.a $(PARTS)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(link_test)

# Rewritten only when it differs: its date is that of the last change of flags.
$(BUILD)/flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(CC) $(ALL_CFLAGS) $(PKGFLAGS) $(TESTOPT)' | cmp -s - $@ || \
	    echo '$(CC) $(ALL_CFLAGS) $(PKGFLAGS) $(TESTOPT)' >$@

# --- tests -----------------------------------------------------------------

# make test T=NAME: one test, or several, by name (plan, core/test_plan), number
# (210), or path (tools/plant, python/test_loader).
ifdef T
stem = $(foreach t,$(T),$(1)$(t)$(2))
T_UNIT := $(sort $(filter $(call stem,$(BUILD)/tests/,) $(call stem,%/test_,) \
            $(call stem,%/,),$(TESTS)))
T_SHELL := $(sort $(wildcard $(call stem,tests/e2e/,*.sh) \
             $(call stem,tests/,.sh) $(call stem,tests/tools/,.sh) \
             $(call stem,tests/golden/,.sh) $(call stem,tools/,.sh)))
T_PYTHON := $(notdir $(basename $(sort $(wildcard $(call stem,tests/,.py) \
              $(call stem,tests/python/test_,.py) \
              $(call stem,tests/python/,.py)))))
test: $(T_UNIT) $(if $(T_SHELL)$(T_PYTHON),all $(E2EPROGS))
	$(Q)$(if $(T_UNIT)$(T_SHELL)$(T_PYTHON),:,echo "make: there is no test \
	    '$(T)': see tests/README.md"; exit 2)
	$(Q)$(if $(T_UNIT)$(T_SHELL),$(RUN) -v $(T_UNIT) $(T_SHELL))
	$(Q)$(if $(T_PYTHON),FIRN_PYTHON_TESTS="$(T_PYTHON)" $(RUN) -v \
	    tests/e2e/935-pytorch-runs-are-the-same-bits.sh)
else
test: $(TESTS)
	$(Q)$(call run,$(TESTS))
endif

# The table of a job's life in docs/jobs.md, from src/daemon/life.c.
life-docs: $(BUILD)/tests/daemon/test_life
	$(Q)FIRN_WRITE_DOCS=1 $<

style:
	$(Q)$(RUN) $(STYLE) $(sort $(wildcard tests/tools/*.sh))

e2e: all $(E2EPROGS)
	$(Q)$(call run,$(E2E))

# Everything that ./check needs with these flags, so that its lanes do not
# build the same file at the same time.
built: all $(if $(DAEMONMAIN),man) tests benches $(E2EPROGS) $(SLOWCALLS) $(FAULTCALLS) $(CONFORMANCE)
test-e2e-built: all tests $(E2EPROGS) $(FAULTCALLS)
test-e2e: test-e2e-built
	$(Q)$(call run,$(call first,$(SLOW),$(E2E_SAN) $(TESTS)))

# One summary for all of it: each part adds its counts to the tally.
check: all tests
	$(Q)mkdir -p $(BUILD) && rm -f $(BUILD)/tally
	$(Q)for part in style test e2e fuzz; do \
	    $(MAKE) $$part TALLY=$(BUILD)/tally || :; done; \
	    tools/run_tests.sh --sum $(BUILD)/tally
export TALLY

# UBSan and ASan together. With sanitizers on, gcc warns of mistakes that are
# none, so warnings are errors in the plain build only. A report of a sanitizer
# needs line numbers; with all of -g gcc takes almost twice as long. -Og compiles
# in two thirds of the time that -O1 takes, and the tests run 5 % longer.
CHECKED = OPT=-Og TESTOPT=-O0 DEBUG=-g1 WERROR=

# Under a sanitizer or valgrind the property tests try fewer random scenes, as
# each costs ten to thirty times as much as in the plain run.
asan tsan valgrind: export FIRN_QUICK = 1

# X-built makes the programs that X runs: ./check makes them while tests wait.
# What UBSan finds ends a program by an illegal instruction, which ASan reports
# with its line: without the code of UBSan's own reports gcc takes two thirds of
# the time. `make asan TRAP=` builds with them: they name the kind of mistake.
asan asan-built: TRAP = -fsanitize-undefined-trap-on-error
# The tests' own code is compiled once: their programs have the objects of the
# plain build and the library as ASan wants it. Unseen is then an overflow of an
# array on a test's stack; ASAN_TESTS=1, as in `make soak`, compiles the tests for
# ASan, too, 35 s of processor time.
ASAN_PLAIN = $(if $(ASAN_TESTS),,$(call obj,$(TESTSRC) \
    tests/e2e/askfield.c tests/fault/faultcalls.c) $(TLIBOBJ) $(DAEMONTLIB))
asan asan-built: SUB = BUILD=$(BUILD)/asan SAN=address,undefined \
    TRAP='$(TRAP)' $(CHECKED) $(if $(ASAN_TESTS),,PLAIN=$(BUILD))
asan: export ASAN_OPTIONS := handle_sigill=1$(ASAN_OPTIONS:%=:%)
asan-built: $(ASAN_PLAIN)
	$(Q)$(MAKE) $(SUB) test-e2e-built
asan: asan-built
	$(Q)$(MAKE) $(SUB) test-e2e

# The tests with processes and timers, plain and under ASan at the same time, as in
# ./check: N times in a row beside BUSY processes that compute. An unsteady test
# counts as failed.
N ?= 10
BUSY ?= 4
timed-run:
	$(Q)$(call run,$(call first,$(SLOW),$(sort \
	    $(call timed,$(TESTS) $(if $(SAN),$(E2E_SAN),$(E2E))))))
asan-timed: SUB = BUILD=$(BUILD)/asan SAN=address,undefined \
    TRAP=-fsanitize-undefined-trap-on-error $(CHECKED) PLAIN=$(BUILD)
asan-timed: export FIRN_QUICK = 1
asan-timed: export ASAN_OPTIONS := handle_sigill=1$(ASAN_OPTIONS:%=:%)
asan-timed: asan-built
	$(Q)$(MAKE) $(SUB) timed-run
steady: built asan-built
	$(Q)CHECK_STRICT=1 BUILD=$(BUILD) tools/run_steady.sh -n $(N) -b $(BUSY) \
	    $(MAKE) -s -j2 timed-run asan-timed

# Trainers have threads, and so has the daemon while a policy decides; the
# daemon is built for TSan in `make soak` only.
TSAN_DIRS = train $(if $(FIRN_SOAK),base core sim policy)
TSAN_TESTS = $(patsubst $(BUILD)/%,$(BUILD)/tsan/%,$(filter \
    $(TSAN_DIRS:%=$(BUILD)/tests/%/%) \
    $(if $(FIRN_SOAK),%/daemon/test_think),$(TESTS)))
tsan-built: SUB = BUILD=$(BUILD)/tsan SAN=thread $(CHECKED) \
    $(if $(FIRN_SOAK),,LIBDIRS='base wire train' \
      LIBMORE='$(filter src/model/%,$(TRAINSRC)) src/engine/ports.c')
tsan-built:
	$(Q)$(MAKE) $(SUB) $(TSAN_TESTS)
tsan: tsan-built
	$(Q)tools/with_tsan.sh $(RUN) -j $$(($(JOBS) + 1)) -r '$(TSAN_TESTS)' \
	    $(TSAN_TESTS)

# In the check: the readers of foreign bytes (text, YAML, JSON, HTTP, traces, job
# files, configuration, the store, messages, Slurm's output, checkpoints), where
# an uninitialised byte, which ASan does not see, may come from outside. ASan runs
# all the others too. In `make soak`: every test but base/test_fdlimit, as
# valgrind has its own limits.
VG_NEVER := base/test_fdlimit
VG_TESTS_OF = $(foreach t,$(2),$(1)/test_$(t))
VG_NOW := $(call VG_TESTS_OF,base,files lines str yamltext) core/test_cluster \
          $(call VG_TESTS_OF,cli,json% jobtext safetext) \
          $(call VG_TESTS_OF,trace,all formats row serving trace) \
          $(call VG_TESTS_OF,daemon,api config http http_head http_sock jobfile \
            store) \
          $(call VG_TESTS_OF,engine,launchfile slurmtext% slurmticket) \
          $(call VG_TESTS_OF,train,ckpt feed) wire/%
VG_TESTS = $(filter-out $(VG_NEVER:%=$(BUILD)/tests/%),$(if $(FIRN_SOAK), \
    $(TESTS),$(filter $(VG_NOW:%=$(BUILD)/tests/%),$(TESTS))))
valgrind: $(TESTS)
	$(Q)$(RUN) -t 900 -w "valgrind -q --vgdb=no --error-exitcode=99 \
	    --leak-check=full --errors-for-leak-kinds=definite,possible" \
	    -r '$(sort $(call timed,$(VG_TESTS)))' $(VG_TESTS)

# cppcheck, which finds little that clang-tidy does not, is a part of soak.
tidy:
	$(Q)$(RUN) -j 1 -t 900 tools/run_tidy.sh \
	    $(if $(FIRN_SOAK),tools/run_cppcheck.sh)

# Each target runs FUZZ_S seconds, two at once. libFuzzer brings its own main,
# so the library is only marked for it, and the targets are linked with it.
# Sources that no target needs are left out. For seconds of fuzzing clang -O0 is
# enough: it takes 0.4 of the time that -O1 takes to compile, and what UBSan finds
# is a SIGILL, as under `make asan`; `make soak`, which fuzzes for ten minutes a
# target, uses -O1 and UBSan's own reports.
FUZZ_OPT ?= -O0
FUZZ_TRAP ?= -fsanitize-trap=undefined
FUZZ = BUILD=$(BUILD)/fuzz TRAP='$(FUZZ_TRAP)' CC=clang OPT=$(FUZZ_OPT) DEBUG=-g1 WERROR= \
       SAN=fuzzer-no-link,address,undefined \
       LIBDIRS='base math wire model train core trace sim' \
       LIBMORE='$(wildcard src/engine/slurmtext*.c) \
         $(patsubst %,src/engine/%.c,slurmgres launchfile launchmsg launchslurm attemptfiles procs \
           joblog joblog_view)' \
       DAEMONSRC='$(filter-out %/api_trace.c,$(wildcard \
         $(patsubst %,src/daemon/%*.c,jobfile book store api_)))  \
         $(patsubst %,src/daemon/%.c,abilities access after api audit boardfiles \
           boardsession config config_check config_keep config_live livejob \
           livemetrics ownfolder recover_alloc room tokens http_pack slurmask)'
fuzz-built:
	$(Q)$(MAKE) $(FUZZ) fuzzers
fuzz: fuzz-built
	$(Q)$(MAKE) $(FUZZ) JOBS=2 fuzz-run
fuzz-soak: FUZZ_OPT = -O1
fuzz-soak: FUZZ_TRAP =
fuzz-soak:
	$(Q)rc=0; $(MAKE) $(FUZZ) JOBS=2 fuzz-run || rc=1; \
	    tools/fuzz_table.sh $(BUILD)/fuzz; exit $$rc
fuzzers: $(FUZZERS)
fuzz-run: $(FUZZERS)
	$(Q)$(RUN) -t $$(($(FUZZ_S) + 120)) -w "tools/run_fuzzer.sh $(FUZZ_S)" \
	    $(FUZZERS)

# Not by gold, which warns of names in clang's runtime.
FUZZLD := $(filter %lld,$(TESTLD))
$(FORMATS:%=$(BUILD)/fuzz_trace_%): $(BUILD)/fuzz_trace
	$(Q)ln -sf fuzz_trace $@
$(DAEMONFUZZ:tests/fuzz/%.c=$(BUILD)/%): $(BUILD)/%: tests/fuzz/%.c \
  $(BUILD)/libfirnd.a $(PARTS)
	$(say) FUZZ $@
	$(Q)$(CC) $(subst fuzzer-no-link,fuzzer,$(ALL_CFLAGS)) $(FUZZLD) \
	    $(TESTINC) \
	    $(WERROR) -o $@ $^ $(DAEMONLIBS) $(LIBS)
$(BUILD)/fuzz_%: tests/fuzz/fuzz_%.c $(PARTS)
	$(say) FUZZ $@
	$(Q)$(CC) $(subst fuzzer-no-link,fuzzer,$(ALL_CFLAGS)) $(FUZZLD) \
	    $(TESTINC) \
	    $(WERROR) -o $@ $^ $(LIBS)

# The tests with several processes or threads, with delays in all of them: DELAYS
# is the share of calls that are delayed, and the longest delay in milliseconds.
# Then the tests on a Slurm that delays each operation by up to SLURM_MS.
DELAYS ?= 0.03,60
SLURM_MS ?= 1500
SLOW_TESTS = $(filter $(addprefix $(BUILD)/tests/,engine/% daemon/% fault/% \
               train/% cli/%),$(TESTS)) $(filter tests/e2e/2%,$(E2E))
slow: all $(TESTS) $(E2EPROGS) $(SLOWCALLS)
	$(Q)$(RUN) -t 3600 -w "env LD_PRELOAD=$(abspath $(SLOWCALLS)) \
	    SLOW_CALLS=$(DELAYS)" $(SLOW_TESTS)
	$(Q)FIRND_SLOW=$(SLURM_MS) $(RUN) -t 3600 $(filter tests/e2e/3%,$(E2E))

soak: all $(TESTS) $(E2EPROGS) $(filter %/submit %/restart,$(BENCHES))
	$(Q)FIRN_SOAK=1 $(RUN) -t 7200 $(TESTS)
	$(Q)FIRN_SOAK=1 $(RUN) -t 7200 $(E2E)
	$(Q)FIRN_SOAK=1 $(RUN) -j 1 -t 7200 tools/run_tidy.sh \
	    tools/run_cppcheck.sh
	$(Q)$(MAKE) asan ASAN_TESTS=1
	$(Q)$(MAKE) tsan FIRN_SOAK=1
	$(Q)$(MAKE) valgrind FIRN_SOAK=1
	$(Q)$(MAKE) deb-test
	$(Q)$(MAKE) vm-test
	$(Q)$(MAKE) next-test
	$(Q)$(MAKE) slow
	$(Q)$(MAKE) slow DELAYS=0.005,1500
	$(Q)$(MAKE) fuzz-soak FUZZ_S=600
	$(Q)$(if $(filter %/submit,$(BENCHES)),BUILD=$(BUILD) sh bench/run.sh \
	    submit $(BUILD)/firnd 600 100000 icefrog)
	$(Q)$(if $(filter %/restart,$(BENCHES)),BUILD=$(BUILD) sh bench/run.sh \
	    restart $(BUILD)/firnd)

# Thousands of kill -9; FIRN_KILLS, FIRN_SHEPHERD_KILLS and FIRN_SLURM_CRASHES
# are the numbers. Finished batches are kept in $(BUILD)/kills, so that an
# interrupted campaign can continue.
kills: all $(patsubst %,$(BUILD)/tests/fault/test_%,kill shepherds slurm)
	$(Q)tools/run_kills.sh -j $(JOBS) $(BUILD)

bench: all $(BENCHES)
	$(Q)if [ -f bench/run.sh ]; then BUILD=$(BUILD) sh bench/run.sh; else \
	    for b in $(BENCHES); do $$b || exit 1; done; fi

# The tables and figures of the papers, from $FIRN_DATA, into docs/results.md; and
# the number of claims that hold into README.md.
results: all
	$(Q)$(BUILD)/firn repro --report docs/results.md
	$(Q)set -- $$(sed -n '/^\*\*[0-9]/{s/[^0-9 ]//gp;q;}' docs/results.md) && \
	    sed -i "s/[0-9]* of [0-9]* do, [0-9]* are/$$1 of $$2 do, $$3 are/" README.md

# The manual page, whose section COMMANDS is made from the help pages.
manual: $(BUILD)/firn
	$(Q)tools/manual.sh $(BUILD)/firn >$(BUILD)/firn.1
	$(Q)cp $(BUILD)/firn.1 docs/firn.1

# The pages of firnd, firn-launch, firn.yaml and job files, from docs/man, the
# help pages and docs/jobs.md.
MANPAGES := $(patsubst docs/man/%.in,$(BUILD)/man/%,$(wildcard docs/man/*.in))
man: $(MANPAGES)
$(MANPAGES) &: tools/manpages.sh docs/jobs.md $(wildcard docs/man/*.in) \
  include/firn/version.h $(BUILD)/firnd $(BUILD)/firn-launch
	$(say) MAN $(BUILD)/man
	$(Q)tools/manpages.sh $(BUILD)/firnd $(BUILD)/firn-launch $(BUILD)/man

# Debian packages of this tree, into $(BUILD)/deb, made in a copy of the tracked
# and new files; objects of the last time are used again. FIRN_DEB_VERSION makes
# packages of another version, for the test of upgrades.
deb:
	$(Q)tools/deb.sh $(BUILD)/deb

# Installs, upgrades, removes and purges the packages in a bare Debian, follows
# docs/admin.md there, and restores a backup. Needs root and a Debian mirror.
deb-test: deb
	$(Q)FIRN_SOAK=1 $(RUN) -v -t 3600 tests/deb/packages.sh \
	    tests/deb/admin.sh

# The same in a virtual machine (qemu), whose kernel has control groups of
# version 2: limits, closed GPUs, upgrade, removal.
vm-test: deb $(FAKENVML)
	$(Q)FIRN_SOAK=1 $(RUN) -v -t 7200 tests/deb/vm.sh

# The tests on Slurm on Debian 13, with its compiler and Slurm 24.11.
next-test:
	$(Q)$(RUN) -v -t 7200 tests/deb/next.sh

PYTHON ?= python3

# The pages as a static folder with a search; with the help of all commands if
# firn is built.
site:
	$(Q)FIRN=$(BUILD)/firn $(PYTHON) tools/site.py $(BUILD)/site

# A wheel of the Python package for this machine, without a network. Needs
# setuptools and wheel in PYTHON.
WHEELS ?= $(BUILD)/wheels
wheel:
	$(Q)$(PYTHON) -c "import setuptools, wheel, pip" 2>/dev/null || \
	    $(PYTHON) -c "import setuptools.command.bdist_wheel, pip" 2>/dev/null || \
	    { echo "make wheel: $(PYTHON) lacks pip, setuptools or wheel;" \
	    "install python3-pip, python3-setuptools and python3-wheel, or set PYTHON" >&2; \
	    exit 1; }
	$(Q)mkdir -p $(WHEELS) && rm -rf python/build python/firn.egg-info
	$(Q)$(PYTHON) -m pip wheel -q --no-index --no-build-isolation --no-deps \
	    -w $(WHEELS) ./python; status=$$?; \
	    rm -rf python/build python/firn.egg-info; exit $$status
	$(Q)ls $(WHEELS)/firn-*.whl

# Needs gnuplot; the plots are kept in docs/.
plots: all
	$(Q)tools/plots.sh

# --- install ---------------------------------------------------------------

BINDIR := $(DESTDIR)$(PREFIX)/bin
LIBPATH := $(PREFIX)/lib
LIBDIR := $(DESTDIR)$(LIBPATH)
INCDIR := $(DESTDIR)$(PREFIX)/include/firn
MANDIR := $(DESTDIR)$(PREFIX)/share/man
UNITDIR := $(DESTDIR)$(PREFIX)/lib/systemd/system
UNITS := firnd.service firn-launch.service

install: all $(if $(DAEMONMAIN),man)
	install -d $(BINDIR) $(LIBDIR)/pkgconfig $(INCDIR) $(MANDIR)/man1
	install -m 755 $(BUILD)/firn $(BINDIR)/
	$(if $(DAEMONMAIN),install -m 755 $(BUILD)/firnd \
	    $(BUILD)/firn-launch $(BINDIR)/)
	install -m 644 $(HEADERS) $(INCDIR)/
	install -m 644 $(BUILD)/libfirn.a $(BUILD)/libfirn_train.a $(LIBDIR)/
	install -m 755 $(BUILD)/$(SO) $(BUILD)/$(TRAINSO) \
	    $(BUILD)/libfirn_d2.so $(LIBDIR)/
	for lib in libfirn libfirn_train; do \
	    ln -sf $$lib.so.$(VERSION) $(LIBDIR)/$$lib.so.$(MAJOR) && \
	    ln -sf $$lib.so.$(MAJOR) $(LIBDIR)/$$lib.so || exit 1; done
	for pc in firn firn_train; do \
	    sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBPATH))|' \
	        -e 's|@VERSION@|$(VERSION)|' \
	        -e 's|@CURL@|$(if $(CURL),-lcurl)|' \
	        -e 's|@SODIUM@|$(if $(SODIUM),-lsodium)|' tools/$$pc.pc.in \
	        >$(LIBDIR)/pkgconfig/$$pc.pc || exit 1; done
	install -m 644 docs/firn.1 $(MANDIR)/man1/
ifdef DAEMONMAIN
	install -d $(MANDIR)/man5 $(MANDIR)/man8 $(UNITDIR)
	install -m 644 $(filter %.5,$(MANPAGES)) $(MANDIR)/man5/
	install -m 644 $(filter %.8,$(MANPAGES)) $(MANDIR)/man8/
	for unit in $(UNITS); do \
	    sed -e 's|=/usr/bin/firnd|=$(PREFIX)/bin/firnd|' \
	        -e 's|=/usr/sbin/firn-launch|=$(PREFIX)/bin/firn-launch|' \
	        -e 's|-shepherd /usr/bin|-shepherd $(PREFIX)/bin|' \
	        debian/*$$unit >$(UNITDIR)/$$unit || exit 1; done
endif

uninstall:
	rm -f $(BINDIR)/firn $(BINDIR)/firnd $(BINDIR)/firn-launch \
	    $(LIBDIR)/libfirn_d2.so $(MANDIR)/man1/firn.1 \
	    $(addprefix $(UNITDIR)/,$(UNITS)) $(foreach page,$(MANPAGES), \
	      $(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	for lib in libfirn libfirn_train; do \
	    rm -f $(LIBDIR)/$$lib.a $(LIBDIR)/$$lib.so \
	        $(LIBDIR)/$$lib.so.$(MAJOR) $(LIBDIR)/$$lib.so.$(VERSION) \
	        $(LIBDIR)/pkgconfig/$${lib#lib}.pc || exit 1; done
	rm -rf $(INCDIR)

# --- the rest --------------------------------------------------------------

format:
	$(Q)clang-format -i $(CFILES)

clean:
	rm -rf $(BUILD)

help:
	@echo 'make            build/firn, build/libfirn.a, build/$(SO)'
	@echo 'make test       the unit tests'
	@echo 'make test T=plan  one test and its output: by name (plan, core/test_plan),'
	@echo '                by number (210), of tests/tools or tests/python'
	@echo 'make e2e        the shell tests: the program, golden results,'
	@echo '                installation, determinism'
	@echo 'make style      layers, headers, style, and the tests of these'
	@echo 'make life-docs  the table of a job'\''s life in docs/jobs.md'
	@echo 'make check      style, test, e2e and fuzz, with one summary'
	@echo 'make asan       unit and shell tests under ASan and UBSan'
	@echo 'make tsan       unit tests under TSan'
	@echo 'make valgrind   unit tests under valgrind'
	@echo 'make tidy       clang-tidy; with FIRN_SOAK=1 cppcheck, too'
	@echo 'make fuzz       each fuzz target for FUZZ_S=$(FUZZ_S) seconds'
	@echo 'make fuzz-soak  the same, then a table: runs, seconds and coverage of each'
	@echo 'make soak       longer property tests, 200 rounds of faults on Slurm,'
	@echo '                slow, ten minutes per fuzz target'
	@echo 'make kills      10 000 kill -9 of firnd, 2000 of shepherds, 200 of'
	@echo '                slurmctld, and one table'
	@echo 'make slow       tests of the live parts, made slow at random calls'
	@echo 'make steady     tests with processes and timers, N=$(N) times in a row'
	@echo '                beside BUSY=$(BUSY) processes that compute'
	@echo 'make bench      the benchmarks'
	@echo 'make results    the papers'"'"' tables by FIRN_DATA, into docs/results.md'
	@echo 'make manual     docs/firn.1 from the help pages'
	@echo 'make plots      measured against predicted, into docs/models/plots'
	@echo 'make deb        Debian packages, into $(BUILD)/deb'
	@echo 'make deb-test   installs, upgrades and purges them in a bare Debian (root)'
	@echo 'make vm-test    the same in a virtual machine: control groups v2 (root, qemu)'
	@echo 'make next-test  the tests on Slurm on Debian 13 (root)'
	@echo 'make site       the pages as a static folder with a search, into build/site'
	@echo 'make wheel      a wheel of the Python package, into $(WHEELS)'
	@echo 'make install    to PREFIX=$(PREFIX), below DESTDIR; and uninstall'
	@echo 'make format     clang-format over all C files'
	@echo 'make clean      removes $(BUILD)'
	@echo 'Variables: CC=$(CC) OPT=$(OPT) BUILD=$(BUILD) CFLAGS LDFLAGS V=1'
	@echo '  WERROR= (warnings are no errors) JOBS=$(JOBS) (tests at once)'
	@echo '  DEBUG=-g (for gdb; by default line numbers only)'

FORCE:
.PHONY: life-docs all built firn firnd train d2 tests benches test test-e2e test-e2e-built style \
        timed-run asan-timed steady e2e check asan asan-built tsan tsan-built valgrind tidy fuzz fuzz-built \
        fuzz-soak fuzzers fuzz-run slow soak kills bench results manual plots \
        site wheel man deb deb-test vm-test next-test install \
        uninstall format clean help FORCE

-include $(patsubst %.o,%.d,$(LIBOBJ) $(BLASOBJ) $(CLIOBJ) $(TLIBOBJ) \
           $(DAEMONOBJ) $(DAEMONTLIB) $(call obj,$(DAEMONMAIN) $(LAUNCHSRC) $(TESTSRC) $(BENCHSRC) $(EXSRC) $(EXMAINS)))
