// SPDX-License-Identifier: Apache-2.0

// Users, groups, and whose process this is.
#include "darwin.h"

#include <grp.h>
#include <pwd.h>

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
