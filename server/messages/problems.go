package messages

import "callbook/server/api"

// Problem is something that does not work although the service is ready for reads.
type Problem struct {
	Code      string `json:"code"` // a key of problems
	MessageEN string `json:"message_en"`
	MessageZH string `json:"message_zh"`
}

// The problems that GET /readyz reports.
const (
	ProblemWrites   = "writes"
	ProblemStorage  = "storage_full"
	ProblemReadOnly = "read_only"
	ProblemDisk     = "disk_low"
	ProblemBackup   = "backup_failed"
	ProblemMails    = "mails_spent"
)

var problems = map[string]api.Text{
	ProblemWrites:   {EN: "Writes fail or wait for longer than a second; reads work. The log names the cause, and callbook check looks for it.", ZH: "写入失败或等待超过一秒；读取正常。日志会说明原因，也可运行 callbook check 检查。"},
	ProblemStorage:  {EN: "The disk is full, or the database has reached --max-size: nothing new is stored; reads work. Free some space or raise --max-size.", ZH: "磁盘已满或数据库已达 --max-size，无法存储新内容；读取正常。请释放空间或调大 --max-size。"},
	ProblemReadOnly: {EN: "The disk of the database is mounted read-only, as after a disk error: writes fail; reads work. Look for disk errors (dmesg). If it is sound, stop the service, check the file system (fsck), mount it again and start the service; otherwise restore a backup to another disk.", ZH: "数据库所在磁盘以只读方式挂载（磁盘出错后会如此）：写入失败；读取正常。请用 dmesg 查看磁盘错误。若磁盘完好，请停止服务，检查文件系统（fsck），重新挂载，再启动服务；否则请将备份恢复到其他磁盘。"},
	ProblemDisk:     {EN: "The disk of the database is almost full. Free some space.", ZH: "数据库所在磁盘空间即将用完。请释放空间。"},
	ProblemBackup:   {EN: "The last scheduled backup failed. The log names the cause; the next attempt follows within an hour.", ZH: "最近一次定时备份失败。日志会说明原因；一小时内会再次尝试。"},
	ProblemMails:    {EN: "The site has sent all mails of a day for verifications, or for recovery and owners. Wait, or raise mails in the table [limits] of the settings.", ZH: "本站当天用于验证、或用于找回与所有者的邮件额度已用完。请等待，或调大设置文件 [limits] 表中的 mails。"},
}

// NewProblem returns a problem with its texts.
func NewProblem(code string) Problem {
	return Problem{code, problems[code].EN, problems[code].ZH}
}
