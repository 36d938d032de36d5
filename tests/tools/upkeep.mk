# The part of the Makefile for those who change the workbook. The Makefile includes it.

.PHONY: broken asan tsan ubsan fuzz redis-check exercises-check book-check book-update site-check check-all valgrind \
    format format-check

forward-%: ; @$(python) tests/tools/forward.py $*
broken: build ; @$(run) broken -- $(ARGS)

# With sanitizers, each case where it is new, where what it looks at changes and the next chapter does not change that
# again, and in its last chapter. Races: in the first chapter with threads and in the last, which has all that shares data.
new_only = $(if $(HEADERS),,-m "not carried and not again")
asan: export SAN = address,undefined
tsan: export SAN = thread
raced = $(firstword $(threaded)) $(lastword $(threaded))
asan tsan ubsan: export B = build/$@
asan: ; @$(side_by_side) build && $(run) $(CHAPTERS) -- $(new_only) $(ARGS)
tsan: ; @$(side_by_side) $(raced:%=build-%) && $(run) $(raced) -- $(new_only) $(ARGS)

# Clang knows more of what is undefined: in the last chapter of each language.
ubsan: export SAN = undefined
ubsan: export CC = clang
last_two = $(lastword $(filter-out $(resp_chapters),$(CHAPTERS))) $(speaks_resp)
ubsan: ; @$(side_by_side) $(last_two:%=build-%) && $(run) $(last_two) -- $(new_only) $(ARGS)

# The last chapter that speaks RESP: random requests, beside Redis too; and its cases with Redis in its place.
resp_chapters := $(filter-out 0% 10 11 12 13 14 15 16,$(CHAPTERS))
speaks_resp := $(lastword $(resp_chapters))
fuzz: export SAN = address,undefined
fuzz: export B = build/asan
fuzz: export FUZZ_SECONDS ?= 60
fuzz: export DIFF_SECONDS ?= 30
fuzz: export TEST_TIME_FACTOR ?= 4
fuzz: ; @$(side_by_side) build-$(speaks_resp) && $(run) $(speaks_resp) -- -k "mutated_streams or same_bytes" $(ARGS)
redis-check: ; @$(side_by_side) build-$(speaks_resp) && SERVER=redis-server $(run) --split $(speaks_resp) -- $(ARGS)

book-check: build ; @$(run) --split book -- $(ARGS)
book-update: ; @$(python) tests/tools/stages.py road && $(python) tests/tools/book.py update
site-check: ; @$(run) site -- $(ARGS)
check-all: ; @$(python) tests/tools/check.py
exercises-check: build ; @$(pytest) tests/learn/prove.py -j $(JOBS) $(ARGS) \
    $(if $(ARGS),,&& $(run) exercises classroom cheats)

# Memory of the lab programs, and what each is given.
args.avl_show = 4 2 6 1 3 5 7 -4 -1
args.levels = 1000
args.stall = 3000 leave $(<D)/server
args.latency = 1
args.pipeline = $(<D)/server 1000
args.crowd = $(<D)/server 100
args.expire_lab = 1000
labs = $(filter-out %/server %/client,$(programs))
valgrind: build ; @$(side_by_side) $(labs:%=valgrind/%)
valgrind/%: %
	@echo "valgrind $* $(args.$(<F))"
	@valgrind -q --leak-check=full --error-exitcode=1 $< $(args.$(<F))

formatted := $(wildcard common/*.h chapters/*/*.c tests/*/*.c)
format: ; @clang-format -i $(formatted)
format-check: ; @clang-format --dry-run -Werror $(formatted)
