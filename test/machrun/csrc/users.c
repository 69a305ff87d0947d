// SPDX-License-Identifier: Apache-2.0

// Users, groups, and whose process this is.
#include "darwin.h"

#include <grp.h>
#include <pwd.h>

long s_getpid(void) { return getpid(); }
long s_getppid(void) { return getppid(); }
long s_getuid(void) { return getuid(); }
long s_geteuid(void) { return geteuid(); }
long s_getgid(void) { return getgid(); }
long s_getegid(void) { return getegid(); }
long s_setuid(uid_t u) { return ret(setuid(u)); }
long s_seteuid(uid_t u) { return ret(seteuid(u)); }
long s_setgid(gid_t g) { return ret(setgid(g)); }
long s_setsid(void) { return ret(setsid()); }
long s_setpgid(pid_t p, pid_t g) { return ret(setpgid(p, g)); }
long s_getpgid(pid_t p) { return ret(getpgid(p)); }
long s_getpgrp(void) { return getpgrp(); }
long s_getgroups(int n, gid_t *g) { return ret(getgroups(n, g)); }
long s_setgroups(int n, const gid_t *g) { return ret(setgroups((size_t)n, g)); }
long s_getgrouplist(const char *user, int gid, gid_t *g, int *n) { return getgrouplist(user, (gid_t)gid, g, n); }
long s_issetugid(void) { return 0; }

struct d_passwd {
	char *name, *passwd;
	uint32_t uid, gid;
	int64_t change;
	char *class_, *gecos, *dir, *shell;
	int64_t expire;
};

static int user(int e, const struct passwd *l, const struct passwd *found, struct d_passwd *d, struct d_passwd **result)
{
	*result = NULL;
	if (e != 0)
		return errno_to_darwin(e);
	if (found == NULL)
		return 0;
	*d = (struct d_passwd){l->pw_name, l->pw_passwd, l->pw_uid, l->pw_gid, 0, (char *)"", l->pw_gecos, l->pw_dir, l->pw_shell, 0};
	*result = d;
	return 0;
}

int s_getpwnam_r(const char *name, struct d_passwd *d, char *b, size_t n, struct d_passwd **r)
{
	struct passwd l, *f = NULL;
	int e = getpwnam_r(name, &l, b, n, &f);
	return user(e, &l, f, d, r);
}

int s_getpwuid_r(uid_t u, struct d_passwd *d, char *b, size_t n, struct d_passwd **r)
{
	struct passwd l, *f = NULL;
	int e = getpwuid_r(u, &l, b, n, &f);
	return user(e, &l, f, d, r);
}

// struct group is the same.
int s_getgrnam_r(const char *name, struct group *g, char *b, size_t n, struct group **r)
{
	return errno_to_darwin(getgrnam_r(name, g, b, n, r));
}

int s_getgrgid_r(gid_t id, struct group *g, char *b, size_t n, struct group **r)
{
	return errno_to_darwin(getgrgid_r(id, g, b, n, r));
}
