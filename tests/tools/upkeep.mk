# The part of the Makefile for those who change the workbook. The Makefile includes it.

.PHONY: asan tsan fuzz crash kill9 redis-check valgrind format format-check gcc clang musl m32 readme-lines

$(CHAPTERS:%=forward-%): forward-%: ; @$(python) tests/tools/forward.py $*

# With sanitizers, each case where it is new and in its last chapter: clang's where they are installed, since clang knows
# more of what is undefined. Races: in the first chapter with threads and in the last, which has all that shares data.
clang_san = export CC="$$(echo 'int main(void) {}' | clang -fsanitize=$$SAN -xc - -o /dev/null 2>/dev/null && \
    echo clang || echo "$(CC)")"
asan: export SAN = address,undefined
tsan: export SAN = thread
raced = $(firstword $(threaded)) $(lastword $(threaded))
asan tsan: export B = build/$@
# Not cases/files.py: it looks at symbols and at make, and runs no program of ours.
watched = $(ends) -k "not files-" $(ARGS)
asan: ; @$(clang_san) && $(side_by_side) build && $(run) $(filter-out $(last),$(CHAPTERS)) --split $(last) -- $(watched)
tsan: ; @$(side_by_side) $(raced:%=build-%) && $(run) --split $(raced) -- $(watched)

# The last chapter that speaks RESP: random requests, beside Redis too; and its cases with Redis in its place.
resp_chapters := $(filter-out 0% 1%,$(CHAPTERS))
speaks_resp := $(lastword $(resp_chapters))
fuzz: export SAN = address,undefined
fuzz: export B = build/asan
fuzz: export FUZZ_SECONDS ?= 60
fuzz: export DIFF_SECONDS ?= 30
fuzz: ; @$(clang_san) && $(side_by_side) build-$(speaks_resp) && \
    $(run) --split $(speaks_resp) -- -k "mutated_streams or same_bytes" $(ARGS)
redis-check: ; @$(need)$(side_by_side) build-$(speaks_resp) && SERVER=redis-server $(run) --split $(speaks_resp) -- $(ARGS)

# Crashes of the last chapter that has a log, or of SERVER: some minutes for each policy. kill9 ends it with SIGKILL while it
# works, a thousand times in a row.
has_log := $(lastword $(patsubst chapters/%/src/aof.h,%,$(wildcard chapters/[0-9][0-9]/src/aof.h)))
crash_lab = $(python) tests/crash/check.py --policy $$policy $1 $(ARGS) --server $(or $(SERVER),$(B)/$(has_log)/server) || failed=1
on_policies = $(call built,build-$(has_log)) && { failed=0; for policy in always everysec; do $(call crash_lab,$1); done; exit $$failed; }
rewrites := $(if $(SERVER),,--rewrite $(if $(wildcard chapters/$(has_log)/src/rewrite.c),bgrewriteaof,off-and-on))
crash: ; @$(call on_policies,--states 5000 --failing 30 $(rewrites))
kill9: ; @$(call on_policies,--kill 1000 $(rewrites))

# Memory of the lab programs, and what each is given.
args.avl_show = 4 2 6 1 3 5 7 -4 -1
args.levels = 1000
args.stall = 3000 leave $(<D)/server
args.latency = 1
args.pipeline = $(<D)/server 1000
args.crowd = $(<D)/server 100
args.expire_lab = 1000
labs = $(filter-out %/server %/client,$(programs))
valgrind: build ; @$(need)$(side_by_side) $(labs:%=valgrind/%)
valgrind/%: %
	@echo "valgrind $* $(args.$(<F))"
	@valgrind -q --leak-check=full --error-exitcode=1 $< $(args.$(<F))

formatted := $(wildcard common/*.h chapters/*/*.c chapters/*/src/*.[ch] tests/*/*.c)
format: ; @$(need)clang-format -i $(formatted)
format-check: ; @$(need)clang-format --dry-run -Werror $(formatted)

needs.redis-check = redis-server
needs.valgrind = valgrind
needs.format = clang-format
needs.format-check = clang-format
needs.gcc = gcc
needs.clang = clang
needs.musl = musl-gcc
needs.m32 = $(if $(shell gcc -m32 -E -include stdio.h -xc /dev/null 2>/dev/null),,gcc-multilib)
package.musl-gcc = musl-tools

# Other compilers, warnings being errors. For another C library and for 32 bits, the tests of an early and of a late chapter
# go by the protocol alone; what 14 has from before, 06 has in good part. Built with -O0, in half the time: what shows only
# when a compiler optimizes shows in the builds with gcc, and with sanitizers.
clang musl m32: export B = build/$@
clang musl m32: export WORKBOOK_OPTIMIZE = -O0
gcc: export CC = gcc
clang: export CC = clang
musl: export CC = musl-gcc
m32: export CC = gcc -m32
gcc clang: ; @$(need)$(side_by_side) build
musl m32: export SERVER = $(B)/NN/server
musl m32: export CLIENT = $(B)/NN/client
musl m32:
	@$(need)$(side_by_side) build
	@$(B)/10/test_avl >/dev/null 2>&1; [ $$? != 126 ] || { \
	    echo "$@: all is built, and nothing was run: the kernel of this machine runs no such programs"; exit 0; }; \
	for lab in $(B)/*/test_*; do $$lab || exit 1; done; $(run) 06 && $(run) 14 -- -m "not between"

# The lines that the READMEs show, in a copy: they build, and cc has nothing to say. The same sources are built with -O2 by
# the goal gcc; here a cc of our own builds with -O0 what they say, in half the time.
readme-lines: export PATH := $(CURDIR)/build/plain/bin:$(PATH)
readme-lines: ; @$(need_cc)rm -rf build/plain && mkdir -p build/plain/bin && cp -r chapters common build/plain && \
    printf '#!/bin/sh\nexec %s "$$@" -O0\n' "$$(command -v cc)" >build/plain/bin/cc && chmod +x build/plain/bin/cc && \
    $(side_by_side) $(CHAPTERS:%=plain-%)
plain-%: ; @echo build/plain/chapters/$* && said=$$(cd build/plain/chapters/$* && grep '^cc .* -o' README.md | sh -e 2>&1) && \
    [ -z "$$said" ] || { echo "$$said"; exit 1; }
