# minimal until the build is finished
CC ?= gcc
CFLAGS := -std=c17 -O2 -g -ffp-contract=off -fvisibility=hidden -fPIC -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wconversion -Werror -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc
LIBS := $(shell pkg-config --libs libcyaml) -lm
SRC := $(wildcard src/base/*.c src/core/*.c src/policy/*.c src/trace/*.c src/sim/*.c)
CLI := $(wildcard src/cli/*.c)
OBJ := $(SRC:%.c=build/obj/%.o)
CLIOBJ := $(CLI:%.c=build/obj/%.o)
build/firn: $(OBJ) $(CLIOBJ)
	$(CC) $(CFLAGS) -o $@ $^ $(LIBS)
build/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -c -o $@ $<
-include $(OBJ:.o=.d) $(CLIOBJ:.o=.d)
