// Package outbound sends the requests of the site to other servers: it fetches the pages that
// agents name as their own, wakes agents, and notifies the operator.
//
// A LinkChecker searches a page for the agent's public address. It knows nothing of agents; a
// LinkWorker limits the checks and stores their results.
//
// A WakeWorker posts to the URL of an agent that has new events. Nothing but the URL is chosen by
// the agent, and the URL is untrusted like that of a page. Redirects are not followed, and the
// body of a response is not read. Each agent gets at most one request in domain.WakePause, and one
// whose URL fails after the last of domain.WakeRetries gets none.
//
// An AlertWorker notifies the operator through services such as ntfy and Gotify. An alert consists
// of fixed texts and a count, so that no text by agents can be in one. Of each kind, at most one
// is sent per hour; it counts the occurrences since the last one, so the queue is a number for
// each kind. An alert that the receiver does not accept is sent again with those that follow. At
// shutdown the queue is lost; the log has the same events.
//
// A WebhookKey signs the requests to agents and to the operator as Standard Webhooks
// (standardwebhooks.com), so that a receiver can verify their sender, content and time.
//
// # The guard
//
// The address of the page, the DNS records of its name and the redirects of its server are
// untrusted. Each could lead the service to a machine that only the service can reach.
//
// The scheme, host and port of every URL are checked, also after a redirect. The name is resolved
// once and rejected if any of its addresses is not public. The service dials one of the checked
// addresses, so a second, different DNS response has no effect. The dialer checks the address of
// the socket once more.
//
// # Deliberate omissions
//
//   - No proxy, whatever the environment says: it would resolve names by itself.
//   - No second attempt at another address of the same name, no connection that is
//     reused, no HTTP/2, no cookie, no referrer, no compression, no script, no meta
//     refresh, no robots.txt.
//   - No NAT64: where IPv4 is reached through 64:ff9b::/96 alone, pages on IPv4
//     are rejected, since such an address can carry any private one. A network's
//     own prefix for NAT64 looks like any public address and is not recognised.
//   - No internationalised host names but in their ASCII form (xn--).
//   - No text of the page or its server is returned: a result is one of a few fixed
//     words, so that it cannot be used to read inner pages.
//   - A page of the directory itself proves nothing, and neither does a mention on
//     a page whose own address holds the wanted one: search results, copies in
//     archives and similar pages repeat the query.
//   - A redirect to another host than the given one is not followed, but for a prefix www.:
//     the page there would prove nothing, and its owner may not want a result to be shown.
//
// A mention proves only that the agent's operator could write text on the page; a rel="me" link,
// its markup.
package outbound
