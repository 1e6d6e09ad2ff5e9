package server

// metric is the name of a metric, its type, and its help.
type metric struct{ name, kind, help string }

// The types of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
	summary   = "summary"
)

// exportedMetrics are all metrics, in the order of the page. Those of the program have the prefix
// callbook_ and a row in static/docs/operation.md; the others are standard names of the Go runtime
// and the process.
var exportedMetrics = []metric{
	{
		"callbook_build_info",
		gauge,
		"Version of the program and of Go, as labels of the constant 1.",
	},
	{"callbook_database_up", gauge, "1 while the database can be read, else 0."},

	{"callbook_http_requests_total", counter, "Requests by method, route and class of the status."},
	{
		"callbook_http_request_seconds",
		histogram,
		"Duration of requests by route, with the time in which clients send and take bodies.",
	},
	{"callbook_refusals_total", counter, "Rejected requests by error code."},
	{
		"callbook_rate_limited_total",
		counter,
		"Requests rejected by a rate limit or quota, by limit.",
	},
	{"callbook_event_calls_waiting", gauge, "Requests that wait for events."},
	{"callbook_connections_open", gauge, "Open connections."},
	{"callbook_memory_in_flight_bytes", gauge, "Bodies that arrive or wait to be sent."},
	{"callbook_cache_bytes", gauge, "Cached responses."},
	{"callbook_limiter_subjects", gauge, "Clients that rate limits count requests of."},

	{"callbook_agents", gauge, "Agents in the directory."},
	{"callbook_posts", gauge, "Calls in the directory."},
	{"callbook_requests_accepted", gauge, "Contact requests that were accepted."},
	{"callbook_reports_open", gauge, "Reports that wait for the operator."},

	{
		"callbook_mails_total",
		counter,
		"Attempts to deliver mails by outcome, and mails that expired before they were delivered.",
	},
	{"callbook_mails_waiting", gauge, "Mails that are not delivered yet."},
	{"callbook_mails_left", gauge, "Mails that the site may still send today, by pool."},
	{"callbook_wakes_total", counter, "Requests that wake agents, by outcome."},

	{"callbook_commits_total", counter, "Transactions of the database."},
	{"callbook_writes_total", counter, "Writes in the transactions of the database."},
	{"callbook_database_bytes", gauge, "Size of the database file."},
	{"callbook_database_log_bytes", gauge, "Size of the write-ahead log."},
	{"callbook_disk_free_bytes", gauge, "Free space on the disk of the database."},
	{
		"callbook_backup_timestamp_seconds",
		gauge,
		"Unix time of the newest scheduled backup, 0 if there is none.",
	},
	{
		"callbook_certificate_expires_seconds",
		gauge,
		"Unix time at which the certificate of a domain expires, 0 if there is none.",
	},

	{"process_cpu_seconds_total", counter, "CPU time of the process."},
	{"process_resident_memory_bytes", gauge, "Resident memory of the process."},
	{"process_virtual_memory_bytes", gauge, "Virtual memory of the process."},
	{"process_open_fds", gauge, "Open file descriptors."},
	{"process_max_fds", gauge, "Limit of open file descriptors."},
	{"process_start_time_seconds", gauge, "Unix time at which the process started."},
	{"process_io_storage_read_bytes_total", counter, "Bytes that the process made the disks read."},
	{
		"process_io_storage_written_bytes_total",
		counter,
		"Bytes that the process made the disks write.",
	},
	{
		"process_pressure_cpu_waiting_seconds_total",
		counter,
		"Time in which a task of the control group waited for a CPU.",
	},
	{
		"process_pressure_io_waiting_seconds_total",
		counter,
		"Time in which a task of the control group waited for a disk.",
	},
	{
		"process_pressure_memory_waiting_seconds_total",
		counter,
		"Time in which a task of the control group waited for memory.",
	},
	{"go_info", gauge, "Version of Go, as a label of the constant 1."},
	{"go_goroutines", gauge, "Goroutines."},
	{"go_threads", gauge, "Threads of the operating system."},
	{"go_gc_duration_seconds", summary, "Pauses of the garbage collector."},
	{"go_memlimit_bytes", gauge, "Soft memory limit (GOMEMLIMIT)."},
	{"go_memstats_alloc_bytes_total", counter, "Bytes allocated on the heap since the start."},
	{"go_memstats_heap_alloc_bytes", gauge, "Bytes of objects on the heap."},
	{"go_memstats_sys_bytes", gauge, "Memory that the Go runtime has from the operating system."},
}
