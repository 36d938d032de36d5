# make help lists what can be done. What takes more than a few lines is a program in tests/tools/ or tests/learn/.

ifneq ($(filter 1.% 2.% 3.%,$(MAKE_VERSION)),)
$(error this is GNU Make $(MAKE_VERSION), and 4.0 or later is needed (macOS: brew install make, then gmake))
endif

# The server of a chapter is server.c, or the files of src/.
of_files := $(patsubst chapters/%/src/server.h,%,$(wildcard chapters/[0-9][0-9]/src/server.h))
CHAPTERS := $(sort $(patsubst chapters/%/server.c,%,$(wildcard chapters/[0-9][0-9]/server.c)) $(of_files))
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
B ?= build/$(if $(HEADERS),headers,test)
export WORKBOOK_BUILD = $(B)

# A variable that help.txt does not name is misspelt: SEVER=my/server would test another program than was meant.
given := $(foreach name,$(.VARIABLES),$(if $(findstring command,$(origin $(name))),$(name)))
unknown := $(filter-out MAKE% $(shell cat tests/tools/help*.txt),$(given))
$(if $(unknown),$(error there is no variable $(unknown) (make help has them)))

one_word := $(if $(filter test demo,$(firstword $(MAKECMDGOALS))),$(filter $(CHAPTERS),$(word 2,$(MAKECMDGOALS))))
$(if $(one_word),$(error this is one word: make $(firstword $(MAKECMDGOALS))-$(one_word)))
$(foreach folder,$(HEADERS),$(if $(wildcard $(folder)/server.h),$(error \
    HEADERS=$(folder): server.h belongs to one server, and HEADERS replaces headers of common/ alone)))
$(if $(HEADERS),$(if $(filter $(notdir $(wildcard common/*.h)),$(notdir $(wildcard $(HEADERS)/*.h))),,$(error \
    HEADERS=$(HEADERS): there is no header of common/ in that folder)))

# What is missing is said before anything is done: the tools of a target, needs.TARGET, and their packages.
missing = $(strip $(foreach tool,$1,$(if $(shell command -v $(tool) 2>/dev/null),,$(tool))))
refuse_without = $(foreach tool,$(call missing,$1),$(error \
    make $@: $(tool) is missing: sudo apt-get install $(or $(package.$(tool)),$(tool))))
package.cc = gcc libc6-dev
package.gcc = gcc libc6-dev
need = $(call refuse_without,$(needs.$@))
need_cc = $(call refuse_without,$(firstword $(CC)))
python = sh tests/tools/findpython.sh sys
pytest = sh tests/tools/findpython.sh pytest

# Programs are built side by side, by a make of their own.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif
side_by_side = $(need_cc)env -u MAKEFLAGS $(MAKE) -s --no-print-directory -O -j$(JOBS)

.PHONY: all help $(CHAPTERS) build demo test test-all bench bench-quick bench-full exercises progress next grade grade-all \
    site clean always

# --- Chapters, next to their sources: make 07 ---

all:
	@$(side_by_side) $(CHAPTERS)
	@echo "Every chapter is built. Next: make demo shows them at work, make help tells what else there is."

$(CHAPTERS):
	@$(need_cc)$(MAKE) -q -C chapters/$@ >/dev/null || { $(MAKE) --no-print-directory -s -C chapters/$@ && \
	    echo "chapters/$@: $(notdir $(filter $(B)/$@/%,$(programs)))"; }

help: ; @cat tests/tools/help.txt $(wildcard tests/tools/help-whole.txt)

# From 27 on a server may write: into a folder that git ignores, and `make clean` leaves alone.
keeps := $(patsubst chapters/%/src/aof.h,%,$(wildcard chapters/[0-9][0-9]/src/aof.h))
$(CHAPTERS:%=run-%): run-%: % ; @$(if $(filter $*,$(keeps)),DIR="$${DIR:-my/data-$*}" && mkdir -p "$$DIR" && export DIR && exec) \
    chapters/$*/server

# --- All other builds, each in its folder $(B): make build-07 B=build/clang CC=clang ---

single := $(patsubst chapters/%.c,$(B)/%,$(wildcard chapters/[0-9][0-9]/*.c))
programs := $(sort $(single) $(of_files:%=$(B)/%/server))
headers := $(wildcard common/*.h $(addsuffix /*.h,$(HEADERS)))
threaded := $(patsubst chapters/%/Makefile,%,$(shell grep -l -e -pthread chapters/*/Makefile))
optimize := $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all,$(or $(WORKBOOK_OPTIMIZE),-O2))
compile := $(CC) -std=gnu11 -g $(optimize) -Wall -Wextra -Werror -I$(if $(HEADERS),$(B)/include,common)

# What takes longest begins, so that no processor waits for it at the end.
build: ; @$(side_by_side) $(of_files:%=$(B)/%/server) $(programs)
$(CHAPTERS:%=build-%): build-%: ; @$(side_by_side) $(filter $(B)/$*/%,$(programs))

# A program takes its name when it is complete, so that several makes may build at once. The folder src changes when a
# file of it comes or goes.
$(single): $(B)/%: chapters/%.c
.SECONDEXPANSION:
$(of_files:%=$(B)/%/server): $(B)/%/server: $$(wildcard chapters/$$*/src/*.[ch]) chapters/%/src
$(programs): $(headers) $(B)/compile
	@echo $@
	@mkdir -p $(@D)
	@$(compile) $(if $(filter $(threaded),$(notdir $(@D))),-pthread) $(filter %.c,$^) -o $@.$$$$ && mv -f $@.$$$$ $@

# Changes when the way to compile does. HEADERS come first everywhere in a folder of links: to common/, then to them.
$(B)/compile: export WAY = $(compile) $(headers)
$(B)/compile: always
	@mkdir -p $(B)/include
	@echo "$$WAY" | cmp -s - $@ || { echo "$$WAY" >$@; \
	    $(if $(HEADERS),for h in $(headers); do ln -sf "$$(realpath $$h)" $(B)/include; done;) }

# --- Watching, comparing, testing: make test-07 ---

# A chapter by itself is for somebody who builds it (tests/harness/teach.py); several files run side by side.
# A limit is there for what hangs. Sanitizers make programs slow, and CI's machine may be.
run = $(patience) $(sanitized) $(pytest) tests/tools/runtests.py
run_one = $(patience) $(sanitized) $(pytest) -m pytest -q
patience = TEST_TIME_FACTOR=$${TEST_TIME_FACTOR:-$(if $(SAN),$(if $(filter thread,$(SAN)),8,4),$(if $(CI),2,1))}
sanitized = $(if $(SAN), \
    ASAN_OPTIONS=$${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1} \
    UBSAN_OPTIONS=$${UBSAN_OPTIONS:-print_stacktrace=1} TSAN_OPTIONS=$${TSAN_OPTIONS:-second_deadlock_stack=1} \
    $(if $(filter thread,$(SAN)),$$(setarch -R true 2>/dev/null && echo setarch -R)))
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/build/pycache
export PYTHONDONTWRITEBYTECODE =

all_files := $(patsubst tests/test_%.py,%,$(wildcard tests/test_*.py))
# Chapters that are here: a handout of 10 alone has the cases of 03, too.
selftests := $(patsubst tests/selftests/test_%.py,%,$(wildcard tests/selftests/test_*.py))
files := $(filter $(CHAPTERS),$(all_files)) $(selftests)
of_tools := front_door harness messages tools
have_targets := broken book exercises solutions classroom cheats site
of_programs := $(filter-out $(of_tools) $(have_targets),$(files))
last := $(lastword $(CHAPTERS))
ends = $(if $(SERVER)$(CLIENT)$(HEADERS),,-m "not between")
untested = { echo "Nothing was tested: mend the first error above, then type the same again."; exit 2; }
built = $(if $(and $(SERVER),$(CLIENT)),:,{ $(side_by_side) $1 || $(untested); })
test test-all: export WORKBOOK_PREBUILT = 1
test: ; @$(call built,build) && $(run) $(filter-out $(last),$(of_programs)) --split $(last) -- $(ends) $(ARGS)
test-all: ; @$(call built,build) && $(run) $(filter-out $(have_targets),$(files)) -- $(ARGS)
$(CHAPTERS:%=test-%): test-%: ; @$(if $(SERVER),:,$(call built,build-$*)) && WORKBOOK_TEACH=1 $(run_one) tests/test_$*.py $(ARGS)
$(selftests:%=test-%): test-%: build ; @$(run_one) tests/selftests/test_$*.py $(ARGS)

demo demo-%: quietly = echo "Building what is not built yet ..." && $(side_by_side) >/dev/null
demo: ; @$(quietly) build && $(python) tests/tools/play.py --demo $(CHAPTERS)
$(CHAPTERS:%=demo-%): demo-%: ; @$(quietly) build-$* && $(python) tests/tools/play.py --demo $*
diff-%: ; @$(python) tests/tools/stagediff.py $(subst -, ,$*)

bench: build ; @$(python) tests/bench/bench.py normal $(ARGS)
bench-quick bench-full: build ; @$(python) tests/bench/bench.py $(@:bench-%=%) $(ARGS)

# --- Exercises: make start-04-buffered-reads ---

learner = tests/learn/learner.py
exercises: ; @$(python) $(learner) list
progress next: ; @$(python) $(learner) $@
start-%: ; @$(python) $(learner) start $*
check-%: ; @$(pytest) $(learner) check $* -- $(ARGS)
watch-%: ; @$(pytest) $(learner) watch $*
hint-%: ; @$(python) $(learner) hint $*
solution-%: ; @$(python) $(learner) solution $*
reset-%: ; @$(python) $(learner) reset $*

# What a page does not have its reader type: make take-09-lines.

take-%: ; @$(python) tests/tools/take.py $*

# --- For those who teach ---

graded = $(addprefix --exercise ,$(EXERCISE)) $(if $(OUT),--out "$$OUT")
grade: ; @$(pytest) tests/learn/grade.py one "$$SUBMISSION" $(graded)
grade-all: ; @$(pytest) tests/learn/grade.py all "$$SUBMISSIONS" -j $(JOBS) $(graded)

# --- The book in a browser ---

site: ; @$(python) tests/tools/website.py $(if $(OUT),"$$OUT")

clean: ; @rm -rf build $(programs:$(B)/%=chapters/%) $$(find tests -name __pycache__ -o -name .pytest_cache)

# --- For those who change the workbook: sanitizers, faults, the checks of text and tools ---

include tests/tools/upkeep.mk
include $(wildcard tests/tools/whole.mk)

# --- What is none of these. The folders are named since make takes a file that is there for made. ---

number = $(lastword $(subst -, ,$@))
.PHONY: start check watch hint solution reset book chapters common tests
start check watch hint solution reset:
	$(error make $@: which exercise? For example make $@-04-buffered-reads (make exercises lists all))
.DEFAULT book chapters common tests:
	$(error make $@: $(if $(filter 0 1 2 3 4 5 6 7 8 9,$(number)),chapters have two digits: make \
	    $(@:%$(number)=%0$(number)),there is no such target: make help lists all, chapters are \
	    $(firstword $(CHAPTERS)) to $(last)))
