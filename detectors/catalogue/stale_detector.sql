-- title     = "{subject}: this detector has judged nothing for {minutes} minutes{said}"
-- title_zh  = "{subject}：该检测器已有 {minutes} 分钟没有完成任何判定{said_zh}"
-- severity  = "high"
-- tags      = ["health"]
-- why       = "A detector that raises, hangs or is cut off finds nothing: until it works again, what it would have told is not told. No alert from it is not good news."
-- respond   = "Read the error here and on the Detectors page. If it names one of your own detectors, correct the file: the service takes it up by itself. If it was cut off, the machine is too busy or one query too wide: look at load, disk and memory. If it still runs though it was told to end, restart the service. What it has missed is judged by itself as soon as it works; `gatewatch coverage --day` shows it. To go on without it, set enabled = false under [detectors.NAME]."
-- respond_zh = "查看此处与“检测器”页面上的错误。若是自有检测器，修正文件即可，服务会自动重新加载。若因超时被中断，说明机器过忙或查询过大：检查负载、磁盘与内存。若它收到结束指令后仍在运行，重启服务。恢复后会自动补判遗漏的时段，可用 `gatewatch coverage --day` 查看。如需暂时停用，在 [detectors.NAME] 下设置 enabled = false。"
-- quiet     = "One round that fails, as on a disk that was full for a moment: it is tried again within a minute. Time in which the service did not run does not count."
-- lookback  = "1 day"
-- gap       = "10 minutes"
-- needs     = []
-- hot       = "SELECT 1 FROM rounds WHERE noted_at >= $since AND noted_at < $until AND ok = 0"
-- clock     = true
-- [params]  # lookback >= the longest `silence`
-- silence   = { type = "interval", default = "3 minutes", min = "1 second", max = "12 hours" }

-- Times are the service's own. It notes the rounds of every detector each minute, and one that failed at once: a note
-- without a good round is a sign, no note is none.
WITH noted AS (
    SELECT detector, noted_at, sum(ok) AS ok, sum(failed)::BIGINT AS failed, max(error) AS error
    FROM rounds
    WHERE noted_at >= $since - $lookback AND noted_at < $until
    GROUP BY ALL
),
following AS (
    SELECT *, lead(noted_at) OVER (PARTITION BY detector ORDER BY noted_at) AS next_at FROM noted
),
without AS (
    SELECT *, coalesce(max(next_at) FILTER (ok > 0) OVER seen, min(noted_at) OVER seen) AS started_at,
           sum(failed) OVER seen AS failures
    FROM following
    WINDOW seen AS (PARTITION BY detector ORDER BY noted_at RANGE BETWEEN $lookback PRECEDING AND CURRENT ROW)
)
SELECT detector AS subject, started_at, noted_at AS ended_at, []::VARCHAR[] AS event_ids,
       date_diff('second', started_at, noted_at) // 60 AS minutes, failures::BIGINT AS failed_in_a_day, error,
       coalesce(': ' || error, '') AS said, coalesce('：' || error, '') AS said_zh
FROM without
WHERE ok = 0 AND noted_at >= $since AND noted_at - started_at >= $silence
