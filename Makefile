# The front door. `make help` lists what can be done, from tests/tools/help.txt; what takes more than
# a line or two is a tool in tests/tools/.

CHAPTERS := $(patsubst chapters/%/server.c,%,$(wildcard chapters/[0-9][0-9]/server.c))
PLAIN := all help demo test bench bench-quick bench-full book-check book-update check asan tsan \
    valgrind broken format format-check clean build build-shown exercises exercises-check progress next \
    grade grade-all handout gradescope class-check
VERBS := start check hint watch solution reset
EXERCISES := $(subst /exercises/,-,$(patsubst chapters/%/exercise.conf,%,$(wildcard \
    chapters/[0-9][0-9]/exercises/*/exercise.conf)))
NUMBERED := demo test run diff forward build
VARIABLES := SERVER CLIENT HEADERS ARGS PORT BIND HOST IDLE_TIMEOUT_MS HASH_SEED TEST_SEED \
    TEST_TIME_FACTOR WRAPPER CC SAN B JOBS PYTHON NO_COLOR INSIST \
    SUBMISSION SUBMISSIONS EXERCISE OUT CHAPTERS N

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
B ?= build/$(if $(HEADERS),headers,test)
export WORKBOOK_BUILD = $(B)

# A typo, a missing tool: the door says so in one line, and nothing else is done. With -q make adds
# no line of its own to that; the + runs it all the same.
goals := $(or $(MAKECMDGOALS),all)
space := $() $()
# The names of the variables on the command line.
given := $(foreach v,$(subst \$(space),_,$(MAKEOVERRIDES)),$(firstword $(subst =, ,$v)))
quote = '$(subst ','\'',$1)'
told := CHAPTERS PLAIN NUMBERED VERBS EXERCISES VARIABLES MAKE_VERSION CC PYTHON SERVER CLIENT HEADERS PORT \
    SUBMISSION SUBMISSIONS
door := $(foreach v,$(told),$v=$(call quote,$($v))) GIVEN=$(call quote,$(given)) \
    sh tests/tools/door.sh $(foreach g,$(goals),$(call quote,$g))
ifneq ($(shell $(door)),)
MAKEFLAGS += -q
$(goals): refuse ;
refuse: ; +@$(door) >&2; exit 1
.PHONY: refuse $(goals)
else

.DEFAULT_GOAL := all
.PHONY: $(PLAIN) $(CHAPTERS) always
ifneq ($(filter-out build% $(CHAPTERS),$(goals)),)
.NOTPARALLEL:
endif
submake = env -u MAKEFLAGS $(MAKE) --no-print-directory -O -j$(JOBS)
python = "$$(sh tests/tools/findpython.sh $1)" tests/tools

help: ; @cat tests/tools/help.txt

# --- Chapters, next to their sources ---

all:
	@$(submake) $(CHAPTERS)
	@echo "Every chapter is built. Next: make demo shows them at work, make help tells what else there is."

$(CHAPTERS):
	@$(MAKE) -q -C chapters/$@ >/dev/null || { $(MAKE) --no-print-directory -s -C chapters/$@ && \
	echo "chapters/$@: $(basename $(notdir $(wildcard chapters/$@/*.c)))"; }

run-%:
	@$(submake) $*
	@chapters/$*/server

# --- All other builds, each in its folder $(B): make build-07 B=build/clang CC=clang ---

threaded := 14
programs := $(patsubst chapters/%.c,$(B)/%,$(wildcard chapters/[0-9][0-9]/*.c))
headers := $(wildcard common/*.h $(addsuffix /*.h,$(HEADERS)))
optimize := $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all,-O2)
compile := $(CC) -std=gnu11 -g $(optimize) -Wall -Wextra -Werror -I$(if $(HEADERS),$(B)/include,common)

build: $(programs) ; @:
build-shown: $(foreach p,$(programs),$(if $(findstring /test_,$p),,$p)) ; @:
$(foreach c,$(CHAPTERS),$(eval build-$c: $(filter $(B)/$c/%,$(programs)) ; @:))

# A program takes its name when it is complete, so that several makes may build at once.
$(programs): $(B)/%: chapters/%.c $(headers) $(B)/compile
	@echo $@
	@mkdir -p $(@D)
	@$(compile) $(if $(filter $(threaded:=/%),$*),-pthread) $< -o $@.$$$$ && mv -f $@.$$$$ $@

# Changes when the way to compile does. A header looks for another beside itself first, so HEADERS
# come first everywhere only in a folder of links: to those in common/, then over them to HEADERS.
$(B)/compile: way = $(call quote,$(compile) $(headers))
$(B)/compile: always
	@mkdir -p $(B) $(if $(HEADERS),$(B)/include)
	@echo $(way) | cmp -s - $@ || { $(if $(HEADERS),for h in $(headers); \
	do ln -sf "$$(realpath $$h)" $(B)/include; done &&) echo $(way) >$@; }

# --- Watching, comparing, testing ---

demo: ; @$(submake) -s build-shown && $(call python)/demo.py $(CHAPTERS)
demo-%: ; @$(submake) -s build-$* && $(call python)/demo.py $*

diff-%: ; @$(call python)/stagediff.py $(subst -, ,$*)
forward-%: ; @$(call python)/forward.py $*

built = $(if $(and $(SERVER),$(CLIENT)),true,$(submake) $1)
run = $(call python,pytest)/runtests.py $1 -- $(ARGS)
test: ; @$(call built,build) && $(call run,--all)
test-%: ; @$(call built,$(if $(filter $*,$(CHAPTERS)),build-$*,build)) && $(call run,$*)
broken: ; @$(submake) build && $(call run,broken)

asan: export SAN = address,undefined
tsan: export SAN = thread
asan tsan: export B = build/$@
asan: ; @$(submake) build && $(call run,$(CHAPTERS))
tsan: ; @$(submake) $(threaded:%=build-%) && $(call run,$(threaded))

bench: scale = normal
bench-quick: scale = quick
bench-full: scale = full
bench bench-quick bench-full: build ; @$(call python)/../bench/bench.py $(scale)

book-check: ; @$(submake) build && $(call run,book)
book-update: ; @$(call python)/book.py update

check: ; @$(call python)/check.py

# --- Exercises: make start-04-buffered-reads, and so on ---

exercise = $(call python,$(if $(filter check-% watch-% exercises-check,$@),pytest))/exercise.py
exercises: ; @$(exercise) list
progress next: ; @$(exercise) $@
learning := $(foreach e,$(EXERCISES),$(VERBS:=-$e))
# A check that finds a mistake is none of make's: as with a typo above, -q adds no line to what is said.
silent := $(if $(filter-out $(learning),$(goals))$(findstring n,$(firstword -$(MAKEFLAGS))),,yes)
MAKEFLAGS += $(if $(silent),-q)
$(learning): ; $(if $(silent),+@unset MAKEFLAGS MFLAGS;,@)$(exercise) $(firstword $(subst -, ,$@)) \
    $(patsubst $(firstword $(subst -, ,$@))-%,%,$@) $(if $(filter check-%,$@),-- $(ARGS))
exercises-check: ; @$(exercise) prove -j $$(($(JOBS) + 1)) $(ARGS) \
    $(if $(ARGS),,&& $(submake) build && $(call run,exercises classroom))

# --- For those who teach ---

graded = $(addprefix --exercise ,$(EXERCISE)) $(if $(OUT),--out $(call quote,$(OUT)))
grade: ; @$(call python,pytest)/gradebook.py one $(call quote,$(SUBMISSION)) $(graded)
grade-all: ; @$(call python,pytest)/gradebook.py all $(call quote,$(SUBMISSIONS)) -j $(JOBS) $(graded)
class-check: ; @$(call python,pytest)/classroom.py $(or $(N),200) -j $(JOBS)
handout: ; @$(call python)/handout.py $(CHAPTERS)
gradescope: ; @$(call python)/gradescope.py $(EXERCISE)

# --- The sources ---

valgrind: labs = $(filter-out %/server %/client,$(programs))
valgrind:
	@$(submake) build
	@status=0; for p in $(labs); do \
	    case $$p in *avl_show) args="4 2 6 1 3 5 7 -4 -1";; *) args=;; esac; echo "valgrind $$p $$args"; \
	    valgrind -q --leak-check=full --error-exitcode=1 $$p $$args || status=1; \
	done; exit $$status

formatted := $(wildcard common/*.h chapters/*/*.c tests/*/*.c)
format: ; @clang-format -i $(formatted)
format-check: ; @clang-format --dry-run -Werror $(formatted)

clean:
	@rm -rf build $(patsubst %.c,%,$(wildcard chapters/*/*.c))
	@find tests -name __pycache__ -o -name .pytest_cache | xargs rm -rf
endif
