// SPDX-License-Identifier: Apache-2.0

// What the C library makes of a command line: the reference for the scanner and the checks of package compat.
//
// Input, once per command line:  flags, argc and the arguments, each with a NUL behind it. Flag "p": POSIXLY_CORRECT is set.
// Output, once per command line: fields with a NUL behind each, then an empty line:
//   exit code, "usage" or "version" or "" (standard output), "message" or "" (standard error),
//   and if the daemon would start: SOCKET and the value of each option, "-" where not given and "=VALUE" where given.
// With argument "strerror" it prints the texts of errnos.

#include <arpa/inet.h>
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUP = 256, MODE, INTERFACE, GATEWAY, END, MASK, IFID, NETID, NAT66, NODHCP };

static const struct option table[] = {
    {"socket-group", required_argument, NULL, GROUP},
    {"vmnet-mode", required_argument, NULL, MODE},
    {"vmnet-interface", required_argument, NULL, INTERFACE},
    {"vmnet-gateway", required_argument, NULL, GATEWAY},
    {"vmnet-dhcp-end", required_argument, NULL, END},
    {"vmnet-mask", required_argument, NULL, MASK},
    {"vmnet-interface-id", required_argument, NULL, IFID},
    {"vmnet-network-identifier", required_argument, NULL, NETID},
    {"vmnet-nat66-prefix", required_argument, NULL, NAT66},
    {"vmnet-disable-dhcp", no_argument, NULL, NODHCP},
    {"pidfile", required_argument, NULL, 'p'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

struct result {
  const char *out; // what goes to standard output
  int message;     // one of our own on standard error
  const char *value[11];
  const char *socket;
};

static int uuid_ok(const char *s) {
  if (strlen(s) != 36)
    return 0;
  for (int i = 0; i < 36; i++) {
    int dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
      return 0;
  }
  return 1;
}

static int fail(struct result *r, int message) {
  r->out = "usage";
  r->message = message;
  return 1;
}

static int combined(struct result *r) {
  const char *mode = r->value[1], *gateway = r->value[3];
  int bridged = mode != NULL && strcmp(mode, "bridged") == 0;
  struct in_addr a;
  if (gateway != NULL && r->value[4] == NULL && !inet_aton(gateway, &a))
    return fail(r, 1);
  if (bridged && r->value[2] == NULL)
    return fail(r, 1);
  if (gateway == NULL)
    return r->value[4] != NULL || r->value[5] != NULL ? fail(r, 1) : 0;
  return bridged || !inet_aton(gateway, &a) ? fail(r, 1) : 0;
}

static int parse(int argc, char **argv, struct result *r) {
  int c;
#ifdef __APPLE__
  optreset = 1;
  optind = 1;
#else
  optind = 0;
#endif
  while ((c = getopt_long(argc, argv, "hvp:", table, NULL)) != -1) {
    switch (c) {
    case 'h':
      r->out = "usage";
      return 0;
    case 'v':
      r->out = "version";
      return 0;
    case '?':
      return fail(r, 0); // getopt_long has printed one
    case MODE:
      if (strcmp(optarg, "host") && strcmp(optarg, "shared") && strcmp(optarg, "bridged"))
        return fail(r, 1);
      break;
    case IFID:
    case NETID:
      if (!uuid_ok(optarg))
        return fail(r, 1);
      break;
    }
    r->value[c == 'p' ? 10 : c - GROUP] = c == NODHCP ? "" : optarg;
  }
  if (argc - optind != 1)
    return fail(r, 0);
  r->socket = argv[optind];
  return combined(r);
}

static char *field(void) {
  static size_t cap;
  char *s = NULL;
  cap = 0;
  return getdelim(&s, &cap, 0, stdin) < 0 ? NULL : s;
}

static void put(FILE *out, const char *s) {
  fputs(s, out);
  fputc(0, out);
}

int main(int argc, char **argv) {
  char *s;
  if (argc > 1 && strcmp(argv[1], "strerror") == 0) {
    for (int i = 0; i < 140; i++)
      puts(strerror(i));
    return 0;
  }
  // getopt_long's messages go to a file, to see whether there were any.
  FILE *messages = tmpfile();
  if (messages == NULL || dup2(fileno(messages), 2) < 0)
    return 2;
  setvbuf(stderr, NULL, _IONBF, 0);
  while ((s = field()) != NULL) {
    struct result r = {.out = ""};
    if (strchr(s, 'p') != NULL)
      setenv("POSIXLY_CORRECT", "", 1);
    else
      unsetenv("POSIXLY_CORRECT");
    int n = atoi(field());
    char **v = calloc(n + 1, sizeof(*v));
    for (int i = 0; i < n; i++)
      v[i] = field();
    if (ftruncate(2, 0) < 0 || lseek(2, 0, SEEK_SET) < 0)
      return 2;
    int code = parse(n, v, &r);
    int printed = lseek(2, 0, SEEK_END) > 0;
    put(stdout, code ? "1" : "0");
    put(stdout, r.out);
    put(stdout, r.message || printed ? "message" : "");
    if (code == 0 && *r.out == 0) {
      put(stdout, r.socket);
      for (int i = 0; i < 11; i++) {
        fputs(r.value[i] == NULL ? "-" : "=", stdout);
        put(stdout, r.value[i] == NULL ? "" : r.value[i]);
      }
    }
    puts("");
  }
  return 0;
}
