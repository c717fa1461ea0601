/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page of the Perfetto UI asks for: a preflight, perhaps, and the file. Everything else is refused:
 * other paths, methods, origins, and names for this machine that a foreign page could have made up.
 */
#include "viewers/view_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_MICROHTTPD

#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* No one needs more connections, nor holds one open for longer. */
#define CONNECTIONS 8
#define IDLE_S      60

struct view_server {
	const struct view_offer *offer;
	struct MHD_Daemon *daemon;
	uint16_t port;
	int done;   /* eventfd */
	char given; /* a connection's mark while the file is on its way */
};

static const char *header(struct MHD_Connection *connection, const char *name)
{
	const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

	return value ? value : "";
}

/* "127.0.0.1:9001" or "localhost:9001": a name of someone else's that leads here is refused. */
static bool host_is_ours(const struct view_server *server, const char *host)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "127.0.0.1:%u", server->port);
	if (strcmp(host, name) == 0)
		return true;
	(void)snprintf(name, sizeof(name), "localhost:%u", server->port);
	return strcmp(host, name) == 0;
}

static struct MHD_Response *with_origin(const struct view_server *server,
					struct MHD_Response *response)
{
	if (!response)
		return NULL;
	(void)MHD_add_response_header(response, "Access-Control-Allow-Origin",
				      server->offer->origin);
	(void)MHD_add_response_header(response, "Vary", "Origin");
	(void)MHD_add_response_header(response, "Cache-Control", "no-store");
	return response;
}

static enum MHD_Result answer(const struct view_server *server, struct MHD_Connection *connection,
			      const char *method, const char *path, unsigned status,
			      struct MHD_Response *response)
{
	enum MHD_Result result;

	if (server->offer->log)
		server->offer->log(method, path, header(connection, "Origin"), status);
	if (!response)
		return MHD_NO;
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result refuse(const struct view_server *server, struct MHD_Connection *connection,
			      const char *method, const char *path, unsigned status)
{
	static char empty[1];
	struct MHD_Response *response =
		MHD_create_response_from_buffer(0, empty, MHD_RESPMEM_PERSISTENT);

	if (response)
		(void)MHD_add_response_header(response, "Connection", "close");
	if (response && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(response, "Allow", "GET, OPTIONS");
	return answer(server, connection, method, path, status, response);
}

static enum MHD_Result preflight(const struct view_server *server,
				 struct MHD_Connection *connection, const char *path)
{
	static char empty[1];
	struct MHD_Response *response = with_origin(
		server, MHD_create_response_from_buffer(0, empty, MHD_RESPMEM_PERSISTENT));

	if (response) {
		(void)MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET");
		(void)MHD_add_response_header(response, "Access-Control-Max-Age", "60");
		/* Browsers ask so before a page of the network may reach this machine. */
		if (*header(connection, "Access-Control-Request-Private-Network"))
			(void)MHD_add_response_header(
				response, "Access-Control-Allow-Private-Network", "true");
	}
	return answer(server, connection, "OPTIONS", path, MHD_HTTP_NO_CONTENT, response);
}

static enum MHD_Result give(struct view_server *server, struct MHD_Connection *connection,
			    const char *path, void **mark)
{
	struct MHD_Response *response = NULL;
	struct stat info;
	int fd = open(server->offer->file, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && fstat(fd, &info) == 0)
		response = MHD_create_response_from_fd64((uint64_t)info.st_size, fd);
	if (!response) {
		if (fd >= 0)
			(void)close(fd);
		return refuse(server, connection, "GET", path, MHD_HTTP_NOT_FOUND);
	}
	(void)MHD_add_response_header(with_origin(server, response), "Content-Type",
				      "application/octet-stream");
	*mark = &server->given;
	return answer(server, connection, "GET", path, MHD_HTTP_OK, response);
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **mark)
{
	static char begun;
	struct view_server *server = user;

	(void)version;
	(void)upload;
	/* The first call is for the head alone. */
	if (!*mark) {
		*mark = &begun;
		return MHD_YES;
	}
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	if (!host_is_ours(server, header(connection, "Host")) ||
	    strcmp(header(connection, "Origin"), server->offer->origin) != 0)
		return refuse(server, connection, method, path, MHD_HTTP_FORBIDDEN);
	if (strcmp(path, server->offer->path) != 0)
		return refuse(server, connection, method, path, MHD_HTTP_NOT_FOUND);
	if (strcmp(method, "OPTIONS") == 0)
		return preflight(server, connection, path);
	if (strcmp(method, "GET") != 0)
		return refuse(server, connection, method, path, MHD_HTTP_METHOD_NOT_ALLOWED);
	return give(server, connection, path, mark);
}

static void on_end(void *user, struct MHD_Connection *connection, void **mark,
		   enum MHD_RequestTerminationCode how)
{
	struct view_server *server = user;
	uint64_t one = 1;

	(void)connection;
	if (*mark != &server->given || how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
		return;
	if (write(server->done, &one, sizeof(one)) < 0)
		return;
}

/* Listens on the loopback alone. */
static int listen_on(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, error;

	if (fd < 0)
		return -errno;
	/* Not refused because of connections of a server before. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 8) == 0)
		return fd;
	error = -errno;
	(void)close(fd);
	return error;
}

static int start(struct view_server *server)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int fd = listen_on(server->offer->port);

	if (fd < 0)
		return fd;
	server->done = eventfd(0, EFD_CLOEXEC);
	if (server->done < 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
		(void)close(fd);
		return -errno;
	}
	server->port = ntohs(address.sin_port);
	server->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request, server,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_NOTIFY_COMPLETED,
		on_end, server, MHD_OPTION_END);
	if (server->daemon)
		return 0;
	(void)close(fd);
	return -EIO;
}

int view_server_start(const struct view_offer *offer, struct view_server **server, char *err,
		      size_t err_size)
{
	int error = -ENOMEM;

	*server = calloc(1, sizeof(**server));
	if (*server) {
		(*server)->offer = offer;
		(*server)->done = -1;
		error = start(*server);
	}
	if (!error)
		return 0;
	(void)snprintf(err, err_size, "serving the trace on 127.0.0.1:%u: %s%s", offer->port,
		       strerror(-error),
		       error == -EADDRINUSE ? "; end what uses it (another waylay view, a "
					      "trace_processor), since the public UI fetches from "
					      "port 9001 alone; with --ui also --port"
					    : "");
	view_server_stop(*server);
	*server = NULL;
	return error;
}

uint16_t view_server_port(const struct view_server *server)
{
	return server->port;
}

int view_server_done(const struct view_server *server)
{
	return server->done;
}

void view_server_stop(struct view_server *server)
{
	if (!server)
		return;
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	if (server->done >= 0)
		(void)close(server->done);
	free(server);
}

#else /* without libmicrohttpd */

int view_server_start(const struct view_offer *offer, struct view_server **server, char *err,
		      size_t err_size)
{
	(void)offer;
	*server = NULL;
	(void)snprintf(err, err_size,
		       "this build cannot serve traces: it was made without "
		       "libmicrohttpd-dev");
	return -ENOSYS;
}

uint16_t view_server_port(const struct view_server *server)
{
	(void)server;
	return 0;
}

int view_server_done(const struct view_server *server)
{
	(void)server;
	return -1;
}

void view_server_stop(struct view_server *server)
{
	(void)server;
}

#endif
