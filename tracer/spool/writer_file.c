/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a recording: where it goes, and how it grows. Every block is reserved before it is
 * touched, so that a full disk is a counted loss and never a SIGBUS.
 */
#include "tracer/spool/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTOR_LEAST 200 /* above what a job counts on getting */
#define ATTEMPTS         64
#define RETRY_NS         SPOOL_SECOND_NS
#define RETRY_SOON_NS    (SPOOL_SECOND_NS / 100)

char spool_path[PATH_MAX];
unsigned spool_keep_free_percent;

/* --- making it --- */

/* mkdir -p with mode 0700. 0 or -errno. */
static int directory_make(const char *path)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(part))
		return n ? -ENAMETOOLONG : -ENOENT;
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
			return -errno;
		part[i] = path[i];
	}
	return access(path, W_OK | X_OK) == 0 ? 0 : -errno;
}

/* A directory under a place that others may write to: ours alone, and no link of somebody else's. */
static int directory_own(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) != 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM;
	return 0;
}

static void name_clean(const char *host, char *name, size_t size)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t n = 0;

	for (; host[n] && n + 1 < size; n++)
		name[n] = strchr(good, host[n]) ? host[n] : '_';
	name[n] = '\0';
}

/* A host's dots would be read as the file name's. */
static int file_make(const char *directory, const char *host, struct spool_file *file)
{
	char name[65];
	struct timespec now;

	name_clean(host, name, sizeof(name));
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		int n;

		clock_gettime(CLOCK_REALTIME, &now);
		n = snprintf(file->path, sizeof(file->path), "%s/%s.%ld.%lld%06ld.wspool",
			     directory, name, (long)syscall(SYS_getpid), (long long)now.tv_sec,
			     now.tv_nsec / 1000);
		if (n < 0 || (size_t)n >= sizeof(file->path))
			return -ENAMETOOLONG;
		file->fd =
			open(file->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (file->fd >= 0)
			return 0;
		/* EEXIST: a process of the same host name and number in another container */
		if (errno != EEXIST && errno != EINTR)
			return -errno;
	}
	return -EEXIST;
}

int spool_file_create(const struct spool_settings *settings, const char *host,
		      struct spool_file *file, char *err, size_t err_size)
{
	const char *wanted = settings->directory, *tmp = secure_getenv("TMPDIR");
	char other[PATH_MAX];
	int rc, rc_other;

	rc = directory_make(wanted);
	if (!rc)
		rc = file_make(wanted, host, file);
	if (!rc)
		return 0;
	snprintf(other, sizeof(other), "%s/waylay-%u", tmp && *tmp == '/' ? tmp : "/tmp",
		 (unsigned)geteuid());
	rc_other = directory_own(other);
	if (!rc_other)
		rc_other = file_make(other, host, file);
	if (rc_other) {
		snprintf(
			err, err_size,
			"cannot write a recording to %.150s (%s) nor to %.150s (%s): set WAYLAY_DIR to "
			"a directory that can be written to",
			wanted, strerror(-rc), other, strerror(-rc_other));
		return rc;
	}
	snprintf(file->note, sizeof(file->note), "cannot write to %.200s: %s", wanted,
		 strerror(-rc));
	return 0;
}

int spool_file_keep(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR_LEAST);

	close(fd);
	return high;
}

/* --- growing it --- */

/* Jobs that become daemons close every descriptor, and the number may then be anything's. */
static bool descriptor_ours(const struct spool_writer *w, int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == w->device && st.st_ino == w->inode;
}

/* The file's, to be given back; -1 if it cannot be opened again. */
static int descriptor_take(struct spool_writer *w)
{
	int fd = atomic_load(&w->fd), fresh, high;

	if (descriptor_ours(w, fd))
		return fd;
	fresh = open(spool_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fresh < 0)
		return -1;
	if (!descriptor_ours(w, fresh)) {
		close(fresh);
		return -1;
	}
	high = fcntl(fresh, F_DUPFD_CLOEXEC, DESCRIPTOR_LEAST);
	if (high < 0)
		return fresh; /* for this once */
	close(fresh);
	/* Another thread may have opened it as well. */
	if (!atomic_compare_exchange_strong(&w->fd, &fd, high)) {
		close(high);
		return fd;
	}
	return high;
}

static void descriptor_give(int fd)
{
	if (fd >= 0 && fd < DESCRIPTOR_LEAST)
		close(fd);
}

bool spool_file_room(int fd, uint64_t bytes, unsigned keep_free_percent)
{
	struct statvfs fs;
	uint64_t unit, keep;

	if (fstatvfs(fd, &fs) != 0)
		return true;
	unit = fs.f_frsize ? fs.f_frsize : fs.f_bsize;
	if (fs.f_blocks == 0)
		return true; /* a file system that does not say */
	keep = (uint64_t)fs.f_blocks / 100 * unit * keep_free_percent;
	return fs.f_bavail * unit >= keep + bytes;
}

static bool size_allowed(uint64_t bytes)
{
	struct rlimit limit;

	/* Beyond the limit the kernel sends SIGXFSZ. */
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       bytes <= limit.rlim_cur;
}

int spool_file_allocate(int fd, uint64_t from, uint64_t bytes)
{
	static const char zeros[16384];

	if (!size_allowed(from + bytes))
		return -EFBIG;
	/* glibc's posix_fallocate would emulate what is missing in a way that is not safe beside
	 * other threads. */
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (fallocate(fd, 0, (off_t)from, (off_t)bytes) == 0)
			return 0;
		if (errno != EINTR)
			break;
	}
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	while (bytes) {
		size_t n = bytes < sizeof(zeros) ? bytes : sizeof(zeros);
		ssize_t done = pwrite(fd, zeros, n, (off_t)from);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -ENOSPC;
		from += (uint64_t)done;
		bytes -= (uint64_t)done;
	}
	return 0;
}

static void reserved_raise(struct spool_writer *w, uint64_t bytes)
{
	uint64_t have = atomic_load(&w->header->reserved_bytes);

	while (have < bytes &&
	       !atomic_compare_exchange_weak(&w->header->reserved_bytes, &have, bytes))
		;
}

static bool grow_by(struct spool_writer *w, int fd, uint64_t have, uint64_t want)
{
	int rc = -1;

	if (!spool_file_room(fd, want - have, spool_keep_free_percent) || !size_allowed(want))
		return false;
	/* fallocate may be done by any number of threads at once. Zeros must be written by one, before
	 * anybody uses what lies there; others find no room in the meantime. */
	for (int attempt = 0; rc != 0 && attempt < ATTEMPTS; attempt++) {
		rc = fallocate(fd, 0, (off_t)have, (off_t)(want - have));
		if (rc != 0 && errno != EINTR)
			break;
	}
	if (rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
		uint32_t idle = 0;

		if (!atomic_compare_exchange_strong(&w->filling, &idle, 1))
			return false;
		/* the last one may have got there meanwhile */
		have = atomic_load(&w->header->reserved_bytes);
		rc = have < want ? spool_file_allocate(fd, have, want - have) : 0;
		if (rc == 0)
			reserved_raise(w, want);
		atomic_store(&w->filling, 0);
	}
	if (rc == 0)
		reserved_raise(w, want);
	return rc == 0;
}

/* Once a recording: why what follows is missing. */
static void say_unreachable(struct spool_writer *w, int error)
{
	uint32_t unsaid = 0;
	char text[160];

	if (!atomic_compare_exchange_strong(&w->unreachable_said, &unsaid, 1))
		return;
	snprintf(text, sizeof(text),
		 "the job closed the recording, which could not be opened again (%s)",
		 strerror(error));
	spool_attribute("spool.unreachable", text);
}

static bool grow(struct spool_writer *w, uint64_t have, uint64_t want, uint64_t *retry_ns)
{
	int fd, cancel;
	bool grown;

	/* A thread that is to be cancelled is not cancelled here, where the job does not expect it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	fd = descriptor_take(w);
	*retry_ns = RETRY_NS;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			*retry_ns = RETRY_SOON_NS; /* a job has them all for a moment */
		say_unreachable(w, errno);
	}
	grown = fd >= 0 && grow_by(w, fd, have, want);
	descriptor_give(fd);
	pthread_setcancelstate(cancel, &cancel);
	return grown;
}

bool spool_file_reserve(struct spool_writer *w, uint64_t bytes, uint64_t ahead,
			enum trace_drop *why)
{
	uint64_t have = atomic_load(&w->header->reserved_bytes), want, now, retry_ns;

	if (bytes <= have)
		return true;
	if (bytes > w->mapped_bytes) {
		*why = TRACE_DROP_SPACE;
		return false;
	}
	*why = TRACE_DROP_DISK;
	now = spool_monotonic_ns();
	if (now < atomic_load(&w->retry_ns))
		return false;
	want = bytes + ahead < w->mapped_bytes ? bytes + ahead : w->mapped_bytes;
	if (grow(w, have, want, &retry_ns) || (want > bytes && grow(w, have, bytes, &retry_ns)))
		return true;
	if (bytes <= atomic_load(&w->header->reserved_bytes))
		return true;
	if (ahead && !atomic_load(&w->filling))
		atomic_store(&w->retry_ns, now + retry_ns);
	return false;
}
