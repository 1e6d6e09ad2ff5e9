package main

import "slices"

// claims are the rows of the table, in its order.
var claims = []claim{
	{
		name:  "kill",
		what:  "Acknowledged writes lost, operations done twice when a request is repeated, and damaged files, after `kill -9` under the load of 8 clients; time from a start until the service is ready, in ms",
		shows: "{lost}, {doubled} of {repeated}, and {broken}, of {acknowledged} writes in {cycles} kills; {ready ms}",
		needs: []need{
			{"lost", exactly, 0, 0},
			{"doubled", exactly, 0, 0},
			{"broken", exactly, 0, 0},
			{"repeated", atLeast, 50, 1000},
			{"acknowledged", atLeast, 3000, 100_000},
			{"cycles", atLeast, 50, 1000},
			{"ready ms", atMost, 2000, 2000},
		},
		tests: in(systemtest, "TestCrash_KillUnderLoad"),
	},
	{
		name:  "calls",
		what:  "The same after a kill at a system call (in a session of every writing operation, and in an upgrade), and after a failed sync",
		shows: "{lost}, {doubled} and {broken} in {points} kills and {failed} failed syncs",
		needs: []need{
			{"lost", exactly, 0, 0},
			{"doubled", exactly, 0, 0},
			{"broken", exactly, 0, 0},
			{"points", atLeast, 60, 2000},
			{"failed", atLeast, 20, 300},
		},
		tests: in(systemtest, "TestCrash_KillAtSystemCall", "TestCrash_RetryAfterFailedSync"),
	},
	{
		name:  "power",
		what:  "Different states in which a power cut leaves the disk that lose an acknowledged write, or are damaged; with `--durability normal`, as a control, some must",
		shows: "{lost} and {broken} of {states}; control: {control lost} lose some",
		needs: []need{
			{"states", atLeast, 600, 20_000},
			{"lost", exactly, 0, 0},
			{"broken", exactly, 0, 0},
			{"control lost", atLeast, 1, 1},
		},
		tests: in(systemtest, "TestPowerCut_LosesNothing"),
	},
	{
		name:  "damage",
		what:  "Wrong responses, errors included, from files with pages of tables or indexes that are zeroed, noise or, after a crash of the system and the check that follows, those of other pages; files with which the program stops and says why",
		shows: "{wrong answers} from {damaged} files; {noticed} noticed",
		needs: []need{
			{"damaged", atLeast, 40, 500},
			{"wrong answers", exactly, 0, 0},
			{"noticed", atLeast, 30, 375},
		},
		tests: in(systemtest, "TestDamage_CausesNoWrongResponse"),
	},
	{
		name:  "disk",
		what:  "Faults of a disk or a file (full, a quota, a failed sync, damaged, truncated, moved, replaced, of another program or user, on a network) that the program handles as static/docs/troubleshooting.md says",
		shows: "all of {cases}",
		needs: []need{{"cases", atLeast, 50, 50}},
		tests: slices.Concat(
			in(
				systemtest,
				"TestServe_LeavesUnusableFilesUnchanged",
				"TestServe_LeavesForeignFilesUnchanged",
				"TestServe_RejectsSecondProcess",
				"TestDamage_StopsService",
				"TestMovedFile_StopsService",
				"TestMaxSize_RejectsOnlyWrites",
				"TestFullDisk_RejectsWritesUntilSpaceIsFree",
				"TestFullDisk_KeepsWatchdogAlive",
				"TestFullDisk_KeepsAcknowledgedWrites",
				"TestReadOnlyDisk_IsReported",
				"TestFailedSync_OfANewFileStopsTheStart",
				"TestFailedSync_OfCheckpointStopsService",
				"TestReadError_StopsStartup",
				"TestWriteError_RejectsWritesMeanwhile",
				"TestNetworkDisk_NeedsFlag",
			),
			in(
				"./store",
				"TestFailure_DamageStopsTheStore",
				"TestFailure_TruncatedFileStopsTheStore",
				"TestFailure_ReplacedFileStopsTheStore",
				"TestFailure_ChangedLinkStopsTheStore",
				"TestFailure_OtherErrorsDoNotStopTheStore",
				"TestIdempotency_RetryAfterFailedCommitCreatesOne",
				"TestOpen_FindsDamage",
				"TestCheckFile_FindsDamage",
				"TestUpgrade_FullDiskRollsItBack",
				"TestMaxBytes_RejectsWhatCreatesOrEnlargesRecords",
			),
			in("./store/sqlitedb", "TestOpen_LeavesForeignFileAsItIs"),
		),
	},
	{
		name:  "commits",
		what:  "Writes per second to an empty directory, by one client and by 256, with `--durability full`; the same with `--durability normal`, to show the cost",
		shows: "{full commits a second} and {full writes a second}; {normal commits a second} and {normal writes a second}",
		needs: []need{
			{"full commits a second", atLeast, 50, 50},
			{"full writes a second", atLeast, 100, 100},
			{"normal commits a second", atLeast, 50, 50},
			{"normal writes a second", atLeast, 100, 100},
		},
		tests: alone(systemtest, "TestDurability_WritesPerSecond"),
	},
	{
		name:  "backups",
		what:  "Backups made during writes that contain every write acknowledged before",
		shows: "{backups}, {writes meanwhile} writes meanwhile",
		needs: []need{{"backups", atLeast, 200, 200}, {"writes meanwhile", atLeast, 200, 200}},
		tests: in("./store", "TestBackup_ContainsAllConfirmedWrites"),
	},
	{
		name:  "restart",
		what:  "Restarts under a service manager's socket without a failed request",
		shows: "{restarts}, {answered} requests served",
		needs: []need{{"restarts", atLeast, 20, 100}, {"answered", atLeast, 180, 900}},
		tests: alone(systemtest, "TestRestart_TurnsNoVisitorAway"),
	},
	{
		name:  "current",
		what:  "Responses to readers beside writers that are older than a write that was acknowledged before the request",
		shows: "{stale} of {checks}",
		needs: []need{{"stale", exactly, 0, 0}, {"checks", atLeast, 20_000, 200_000}},
		tests: in("./server", "TestReads_AreNeverOlderThanAcknowledgedWrites"),
	},
	{
		name:  "hostile",
		what:  "Inputs that cause a 5xx response or a panic: requests that violate the OpenAPI document, each constraint alone and then at random, and inputs of the fuzz targets; raw HTTP requests, oversized, contradictory or truncated, that are interpreted in another way than HTTP demands",
		shows: "{failures} of {inputs}, {requests} of them rejected requests, to {operations} operations; 0 of {raw requests}",
		needs: []need{
			{"inputs", atLeast, 50_000, 10_000_000},
			{"requests", atLeast, 12_000, 1_000_000},
			{"failures", exactly, 0, 0},
			{"operations", atLeast, 37, 37},
			{"raw requests", atLeast, 40, 40},
		},
		tests: slices.Concat(
			in(
				"./server",
				"TestHostileInput_IsRejected",
				"TestHTTP_AmbiguousRequestsHaveOneReading",
				"TestHTTP_HeadersAreBounded",
				"TestHTTP_BodiesAreBounded",
			),
			fuzzed("./server", "FuzzWrites", "FuzzSearch", "FuzzPages", "FuzzMCP", "FuzzOwnerPage"),
			fuzzed("./server/api", "FuzzParseJSON"),
			fuzzed("./server/middleware", "FuzzClientAddress"),
			fuzzed("./server/cli", "FuzzConfig"),
			fuzzed("./server/outbound", "FuzzPage"),
			fuzzed("./store/search", "FuzzTokens"),
			fuzzed("./store", "FuzzSearch"),
			fuzzed("./store/text", "FuzzFields", "FuzzName", "FuzzText"),
			fuzzed("./store", "FuzzBlockedWord"),
		),
	},
	{
		name:  "slow",
		what:  "Slow connections, in their headers, in their bodies and not reading, that the service has open at once, at the least; 95th percentile of the response time of others meanwhile, in ms",
		shows: "{slow sockets}; {p95 ms}",
		needs: []need{{"slow sockets", atLeast, 1000, 1000}, {"p95 ms", atMost, 199, 199}},
		tests: alone(systemtest, "TestSlowSockets_DoNotDelayOthers"),
	},
	{
		name:  "stalled",
		what:  "HTTP/2 streams of one address with a window of 0, and connections of eight others that do not read, each requesting a page of 200 KB; most anonymous memory meanwhile, with the memory limit of the unit, in MB, and the limit of the control group, where the machine has them; 95th percentile of the response time of others, in ms",
		shows: "{stalled streams} and {stalled connections}; {MB} in a group of {MB of the group}; {p95 ms}",
		needs: []need{
			{"stalled streams", atLeast, 600, 600},
			{"stalled connections", atLeast, 1000, 1000},
			{"MB", atMost, 200, 200},
			{"MB of the group", atMost, 256, 256},
			{"p95 ms", atMost, 200, 200},
		},
		tests: alone(systemtest, "TestStalledClients_DoNotExhaustMemory"),
	},
	{
		name:  "idlers",
		what:  "Idle connections that sixteen /64s of one home line hold, and those of them and 8 further networks; failed requests of another network meanwhile; connections that are left a few seconds later",
		shows: "{of a home line} and {of all}; {turned away} of {visits}; {after idling}",
		needs: []need{
			{"of a home line", atMost, 384, 384},
			{"of all", atMost, 2048, 2048},
			{"turned away", exactly, 0, 0},
			{"visits", atLeast, 200, 200},
			{"after idling", atMost, 1536, 1536},
		},
		tests: alone("./server", "TestConnections_IdleNetworksTurnNoVisitorAway"),
	},
	{
		name:  "origins",
		what:  "Requests that change something although they come from a page of another site: every write that needs no key, with each Sec-Fetch-Site and Origin, in `serve` and `dev`",
		shows: "0 of {keyless writes} to {kinds} writes",
		needs: []need{{"keyless writes", atLeast, 200, 200}, {"kinds", atLeast, 8, 8}},
		tests: in("./server", "TestOrigin_PagesElsewhereChangeNothing"),
	},
	{
		name:  "floods",
		what:  "Requests that anyone can send without limit (of unknown paths and methods, without a key, of probes, from other sites), by kind, from one address that has used up its limits; most bytes of log for each byte received, in percent",
		shows: "{floods} kinds of {requests}; {log percent}",
		needs: []need{
			{"floods", atLeast, 15, 15},
			{"requests", atLeast, 100_000, 500_000},
			{"log percent", atMost, 100, 100},
		},
		tests: in("./server", "TestFlood_IsLimitedAndLoggedInLessThanItSends"),
	},
	{
		name:  "overload",
		what:  "Requests served with four times the clients, in percent of the maximum, for each second of the service's processor time; the same for each second; those of 500 writers that get 503 while the disk stalls",
		shows: "{goodput percent of reads} of reads, {goodput percent of writes} of writes; {wall percent of reads} of reads, {wall percent of writes} of writes; {turned away}",
		needs: []need{
			{"goodput percent of reads", atLeast, 80, 80},
			{"goodput percent of writes", atLeast, 80, 80},
			{"wall percent of reads", atLeast, 50, 80},
			{"wall percent of writes", atLeast, 50, 80},
			{"turned away", atLeast, 1, 1},
		},
		tests: alone(systemtest, "TestOverload_KeepsServing"),
	},
	{
		name:  "age",
		what:  "Failed requests in a simulated year, and requests served, of every kind in every quarter; memory of `callbook dev` at rest with `GOGC=10`, in MB, and its growth and that of open files from the second third to the last, in percent; maximum size of the file and its log, in MB",
		shows: "{failures}; {requests} of {kinds} kinds; {MB at rest}, {growth percent} and {growth of descriptors}; {MB of file} and {MB of log}",
		needs: []need{
			{"requests", atLeast, 2000, 200_000},
			{"kinds", atLeast, 44, 44},
			{"failures", exactly, 0, 0},
			{"growth percent", atMost, 50, 5},
			{"growth of descriptors", atMost, 10, 5},
			{"MB at rest", atMost, 100, 100},
			{"MB of file", atMost, 256, 256},
			{"MB of log", atMost, 32, 32},
		},
		tests: in(systemtest, "TestAging_YearOfUse"),
	},
	{
		name:  "authority",
		what:  "Requests of the authorization matrix (every operation, caller and state) with the specified result; random acts with the result that a model of the rules predicts",
		shows: "{cells} requests, {operations} operations; {acts} acts",
		needs: []need{
			{"cells", atLeast, 1000, 1000},
			{"operations", atLeast, 37, 37},
			{"acts", atLeast, 100_000, 1_000_000},
		},
		tests: slices.Concat(
			in("./server", "TestAuthorization_Matrix"),
			in("./store", "TestModel"),
		),
	},
	{
		name:  "canaries",
		what:  "Keys, codes, links and mailboxes shown to others, logged, or left in the file after deletion",
		shows: "0 of {secrets} secrets in {answers} responses; 0 of {erased} erased agents",
		needs: []need{
			{"secrets", atLeast, 100, 100},
			{"answers", atLeast, 5000, 5000},
			{"erased", atLeast, 50, 50},
		},
		tests: slices.Concat(
			in("./server", "TestSecrets_NeverShown", "TestTools_ShowNoSecret"),
			in("./store", "TestDeleteAgent_LeavesNothingInTheFile"),
		),
	},
	{
		name:  "races",
		what:  "Limits exceeded by one, and acts done twice, in rounds of 100 concurrent requests",
		shows: "0 in {limit rounds} rounds, 0 in {act rounds}",
		needs: []need{
			{"limit rounds", atLeast, 1000, 20_000},
			{"act rounds", atLeast, 900, 18_000},
		},
		tests: slices.Concat(
			in(
				"./store",
				"TestQuota_HoldsForConcurrentWrites",
				"TestSendRequest_ConcurrentRequestsKeepLimits",
				"TestCode_CountsConcurrentAttempts",
				"TestCode_ConcurrentUseSucceedsOnce",
				"TestRotateKey_ConcurrentlyOneSucceeds",
				"TestOwner_FormActsOnce",
				"TestRecordCollab_ConcurrentRequests",
			),
			in(
				"./server",
				"TestContactRequest_ConcurrentAcceptDeclineWithdraw",
				"TestContactRequest_ConcurrentDeletionAndAccept",
			),
		),
	},
	{
		name:  "detector",
		what:  "Reports of the race detector, and failed requests, under a load of every kind; requests served, and those of them that are no plain reads; growth of descriptors and goroutines meanwhile, in percent, where it is more than three",
		shows: "0 and {failures}; {requests}, {varied requests}; {growth percent}",
		needs: []need{
			{"requests", atLeast, 10_000, 1_000_000},
			{"varied requests", atLeast, 500, 50_000},
			{"failures", exactly, 0, 0},
			{"growth percent", atMost, 5, 5},
		},
		tests: racing(systemtest, "TestServe_LeaksNothingUnderLoad"),
	},
	{
		name:  "codes",
		what:  "Verification codes guessed; guesses of the 2^40 codes that count for an agent in a day",
		shows: "{guessed} in {guesses} guesses, {compared} of them while a code was valid; {that count a day} count",
		needs: []need{
			{"guessed", exactly, 0, 0},
			{"guesses", atLeast, 5000, 1_000_000},
			{"compared", atLeast, 45, 7500},
			{"that count a day", atMost, 15, 15},
		},
		tests: in("./store", "TestCode_LimitsGuessesPerDay"),
	},
	{
		name:  "links",
		what:  "Internal addresses to which the link check connects: from a table, and when a name changes to one between two look-ups",
		shows: "0 of {addresses}, 0 in {rebindings} tries",
		needs: []need{{"addresses", atLeast, 200, 200}, {"rebindings", atLeast, 1000, 1000}},
		tests: in(
			"./server/outbound",
			"TestGuard_NeverDialsInternalAddress",
			"TestGuard_DNSRebindingReachesNoInternalAddress",
		),
	},
	{
		name:  "markup",
		what:  "Hostile texts in every field that change the structure of a page, the feed or the result of a tool",
		shows: "0 of {pages} pages; {texts on pages} texts on public pages, {texts on owners pages} on owners' pages, {texts in queries} in queries, {texts in the feed} in the feed, {texts in tools} in tools",
		needs: []need{
			{"texts on pages", atLeast, 500, 500},
			{"pages", atLeast, 1500, 1500},
			{"texts on owners pages", atLeast, 500, 500},
			{"texts in queries", atLeast, 500, 500},
			{"texts in the feed", atLeast, 500, 500},
			{"texts in tools", atLeast, 500, 500},
		},
		tests: in(
			"./server",
			"TestPages_HostileTextStaysText",
			"TestOwnerPage_HostileTextStaysText",
			"TestTools_HostileTextStaysText",
			"TestPages_HostileQueriesStayText",
		),
	},
	{
		name:  "mails",
		what:  "Mails a day that hostile agents can send to one address",
		shows: "{mails a day} from {hostile agents} agents, in {ways} ways",
		needs: []need{
			{"hostile agents", atLeast, 10_000, 10_000},
			{"ways", atLeast, 3, 3},
			{"mails a day", atMost, 3, 3},
		},
		tests: in("./store", "TestOutbox_TenThousandAgentsWithOneMailbox"),
	},
	{
		name:  "greed",
		what:  "Bytes that all agents that one address can register in a day add to the file on that day, extrapolated from some of them",
		shows: "{bytes a day} by {greedy agents} agents",
		needs: []need{
			{"greedy agents", atLeast, 10, 50},
			{"bytes a day", atMost, 200_000_000, 200_000_000},
		},
		tests: in("./store", "TestGreed_OneNetworkAddsLittleADay"),
	},
	{
		name:  "pools",
		what:  "Mails a day that one IPv4 address and one /48 can cause on a site with the default limits; newcomers and agents without a key that get theirs meanwhile",
		shows: "{mails of an address} and {mails of a 48} of {greedy requests} requests; {newcomers} and {keys}",
		needs: []need{
			{"mails of an address", atMost, 5, 5},
			{"mails of a 48", atMost, 20, 20},
			{"greedy requests", atLeast, 600, 6000},
			{"newcomers", atLeast, 75, 75},
			{"keys", atLeast, 75, 75},
		},
		tests: in("./store", "TestMailPool_OneNetworkCannotSpendTheMails"),
	},
	{
		name:  "recovery",
		what:  "Days on which an agent cannot recover its key, while every hour strangers without a key ask for its code, try wrong ones and name its mailbox as theirs",
		shows: "{days without a key} of {days}, against {strangers} strangers with {wrong codes} wrong codes",
		needs: []need{
			{"days without a key", exactly, 0, 0},
			{"days", atLeast, 7, 60},
			{"strangers", atLeast, 100, 100},
			{"wrong codes", atLeast, 10_000, 100_000},
		},
		tests: in("./store", "TestRecovery_StrangersCannotPreventIt"),
	},
	{
		name:  "memory",
		what:  "Anonymous memory with agents in the directory, at rest and with 64 clients, in MB; memory of the rate limits after that many clients, of which they remember the newest 32,768",
		shows: "{MB at rest} and {MB under load} with {agents} agents; {MB of limits} after {limiter keys} clients",
		needs: []need{
			{"MB at rest", atMost, 40, 40},
			{"MB under load", atMost, 150, 150},
			{"agents", atLeast, 5000, 100_000},
			{"limiter keys", atLeast, 1_000_000, 10_000_000},
			{"MB of limits", atMost, 20, 20},
		},
		tests: slices.Concat(
			in(systemtest, "TestMemory_StaysBounded"),
			in("./server/ratelimit", "TestLimiter_IsBounded"),
		),
	},
	{
		name:  "exposure",
		what:  "Exposure of the shipped systemd unit by `systemd-analyze security`, in tenths, of 100",
		shows: "{tenths exposed}",
		needs: []need{{"tenths exposed", atMost, 15, 15}},
		tests: in(systemtest, "TestUnit_IsConfined"),
	},
}

// systemtest is the folder of the tests that run the program as a process.
const systemtest = "./server/systemtest"

// in are tests of one package.
func in(folder string, names ...string) []test { return test{folder: folder}.named(names) }

// alone are tests that measure time.
func alone(folder string, names ...string) []test {
	return test{folder: folder, alone: true}.named(names)
}

// racing are tests that run under the race detector.
func racing(folder string, names ...string) []test {
	return test{folder: folder, race: true}.named(names)
}

// fuzzed are fuzz targets.
func fuzzed(folder string, names ...string) []test {
	return test{folder: folder, fuzz: true}.named(names)
}

func (t test) named(names []string) (all []test) {
	for _, t.name = range names {
		all = append(all, t)
	}
	return all
}
