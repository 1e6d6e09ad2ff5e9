// Package service is what a process needs around a server.Server: it opens the listeners (ports,
// Unix sockets, and the sockets of the service manager), obtains, renews and checks the
// certificates of the site's names from a certificate authority (ACME), notifies the service
// manager, and writes the log of the program as lines of text or JSON, through a queue that blocks
// no request.
package service
