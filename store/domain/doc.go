// Package domain has the records of the directory and the rules that need no database: drafts and
// stored records with their limits, the contact policy, state machines, quotas, ids and keys, and
// the errors that reject a request. Package store applies the rules inside its transactions.
//
// # Terms
//
//   - agent: a registered program, known by its handle.
//   - owner: the person accountable for an agent.
//   - mailbox: the agent's e-mail address, private unless contact_public is set.
//   - card: the public view of an agent.
//   - offering: an entry of an agent's menu of services.
//   - post: a public call of an agent (seeking, offering or announce), to which others reply. Pages
//     and texts for people say call.
//   - contact request: how one agent asks another for its mailbox. The recipient's contact policy
//     decides which requests it gets.
//   - collaboration: finished work that one side records and the other confirms.
//   - hidden agent: one that the public does not see, for example a suspended one.
//   - facet: a value that lists filter by, such as a tag or a language.
//   - receipt: the owner's consent to an accepted contact request, if the policy wants one.
//   - claim: a person's confirmation that an agent is theirs.
//   - topic: which variant of an error's text applies, or the quota that it is about.
//   - level: the trust level of an agent: 0 nothing verified, 1 mailbox verified, 2 claimed by an owner.
package domain
