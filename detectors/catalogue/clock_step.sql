-- title     = "The clock of the machine that runs gatewatch was set {way} by {shown}"
-- title_zh  = "运行 gatewatch 的主机时钟被{way_zh}拨动了 {shown_zh}"
-- severity  = "medium"
-- tags      = ["health"]
-- why       = "Windows, silences and reminders are measured by this clock. Set forward, all that is open looks old; set back, an hour is lived twice, and times in evidence no longer say in which order things came."
-- respond   = "Look at the time service of this machine (timedatectl, chronyc tracking) and at who set the clock. Nothing has to be repaired here: rounds go by a clock that nobody sets, and events are judged by their own times. Distrust times that lie in the span that was jumped over, or was lived twice."
-- respond_zh = "检查本机时间服务（timedatectl、chronyc tracking）以及是谁调整了时钟。此处无需修复：各轮判定按不受调整影响的时钟进行，事件按自身时间判定。对落在跳过或重复时段内的时间戳应存疑。"
-- quiet     = "Steps of up to a minute, and time that the clock slews slowly. A machine that was suspended and woken looks like a clock set forward: then it is harmless, but nothing was watched meanwhile."
-- lookback  = "0 seconds"
-- gap       = "1 hour"
-- needs     = []
-- clock     = true

SELECT 'gatewatch' AS subject, noted_at AS started_at, noted_at AS ended_at, []::VARCHAR[] AS event_ids,
       round(seconds)::BIGINT AS seconds,
       CASE WHEN seconds < 0 THEN 'back' ELSE 'forward' END AS way,
       CASE WHEN seconds < 0 THEN '向后' ELSE '向前' END AS way_zh,
       CASE WHEN abs(seconds) < 7200 THEN round(abs(seconds) / 60, 1) || ' minutes' ELSE round(abs(seconds) / 3600, 1) || ' hours' END AS shown,
       CASE WHEN abs(seconds) < 7200 THEN round(abs(seconds) / 60, 1) || ' 分钟' ELSE round(abs(seconds) / 3600, 1) || ' 小时' END AS shown_zh
FROM clock_steps
WHERE noted_at >= $since AND noted_at < $until
