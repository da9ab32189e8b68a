-- title     = "{subject}: {tool} asks for everything ({signs}), {outcome}"
-- title_zh  = "{subject}：{tool} 请求全部数据（{signs}），{outcome_zh}"
-- severity  = "medium"
-- tags      = ["data"]
-- why       = "The parameters ask for all there is: no limit, no condition, every segment. A task rarely needs that; a copy of the whole customer base does. One such call is enough for a leak, so no baseline is waited for."
-- respond   = "Read the parameters and the task in the trace: did somebody ask for the whole list? Look at what came back (rows, bytes) and at the calls after it: a send or an upload is the bad case, then pause the agent and take the export permission away; giving it back undoes that. If the tool reads a small lookup table, exempt the agent for it and say why."
-- respond_zh = "查看调用链中的参数和任务：是否有人要求导出全部名单？再看返回了多少行、多少字节，以及之后的调用：若有发送或上传，暂停智能体并收回导出权限，恢复授权即可撤销。若该工具只读取很小的字典表，为该智能体加豁免并写明原因。"
-- quiet     = "Small lookup tables and listings that are read whole by design: those are only low, unless the tool's name says export, dump, download or backup. A call that was refused is low: the gate held."
-- lookback  = "0 seconds"
-- gap       = "1 hour"
-- needs     = ["tool", "params"]
-- kinds     = ["tool_proposed", "tool_decided", "tool_executed", "approval_requested", "approval_decided"]
-- hot       = "SELECT 1 FROM calls WHERE last_ts >= $since AND ts < $until AND coalesce(executed_at, decided_at) >= $since AND (regexp_matches(params::VARCHAR, '(?i)all|[*]|limit|max_|per_page|page_size') OR regexp_matches(tool, '(?i)export|dump'))"
-- [params]
-- large     = { type = "integer", default = 100000, min = 1000 }

WITH settled AS (  -- one row a call: when it was executed, else when it was decided
    SELECT coalesce(tenant, '') AS tenant, actor(agent, principal, session, trace_id, source) AS subject, agent, tool, trace_id, call_id,
           coalesce(executed_at, decided_at) AS ended_at, coalesce(executed_by, decided_by) AS event_id,
           executed_at IS NOT NULL AS ran, coalesce(decision, '') = 'deny' AND executed_at IS NULL AS refused,
           lower(params::VARCHAR) AS p, words(tool) AS name
    FROM calls
    WHERE last_ts >= $since AND ts < $until AND (executed_at IS NOT NULL OR decision IN ('allow', 'deny'))
      AND (regexp_matches(params::VARCHAR, '(?i)all|\*|limit|max_|per_page|page_size') OR regexp_matches(tool, '(?i)export|dump'))
),
read AS (  -- each sign, in words; in nested parameters too. A quote inside a text is escaped, so it is no key
    SELECT *, list_filter([
        CASE WHEN regexp_matches(p, '"(export_?|select_?|fetch_?|include_?|get_?|read_?)?(all|everything)"\s*:\s*(true|1|"true"|"yes")') THEN 'all = true' END,
        CASE WHEN regexp_matches(p, '"(limit|row_?limit|max_?rows|max_?results|max_?items|page_?size|per_?page)"\s*:\s*("?(0|-1)"?|"(all|none|unlimited|max)")\s*[,}]') THEN 'no limit' END,
        CASE WHEN try_cast(regexp_extract(p, '"(?:limit|row_?limit|max_?rows|max_?results|max_?items|page_?size|per_?page)"\s*:\s*"?(\d{4,18})"?\s*[,}]', 1) AS BIGINT) >= $large
             THEN 'a very large limit' END,
        CASE WHEN regexp_matches(p, '"(sql|query|statement)"\s*:\s*"\s*select\s+\*\s+from\s+[^\s;"]+\s*;?\s*"') THEN 'select * without a condition' END,
        CASE WHEN regexp_matches(p, '"(segments?|audience|scope|range|customers|contacts|users|accounts|tables?|ids?|filter)"\s*:\s*\[?\s*"(all|\*|all_?(users|customers|contacts|records|rows|time|data)|everyone|everything)"')
             THEN 'every segment' END,
        CASE WHEN regexp_matches(p, '"(fields|columns|select)"\s*:\s*\[?\s*"(\*|all)"') THEN 'every field' END,
        CASE WHEN regexp_matches(name, '(export|dump|download|fetch|backup)_?(all|everything|full|db|database)([^a-z]|$)|(full|bulk)_?(export|dump)') THEN 'its name' END
    ], lambda x: x IS NOT NULL) AS found
    FROM settled
    WHERE ended_at >= $since AND ended_at < $until
)
SELECT subject, tenant, agent, ended_at AS started_at, ended_at, [event_id] AS event_ids,
       CASE WHEN refused THEN 'low'
            WHEN list_contains(found, 'its name') OR regexp_matches(name, '(^|[^a-z])(export|dump|download|backup|extract)([^a-z]|$)') THEN 'high'
            WHEN list_has_any(found, ['all = true', 'select * without a condition', 'every segment']) OR len(found) > 1 THEN 'medium'
            ELSE 'low' END AS severity,
       tool, found AS signs, trace_id, call_id,
       CASE WHEN refused THEN 'refused' WHEN ran THEN 'executed' ELSE 'allowed' END AS outcome,
       CASE WHEN refused THEN '已拒绝' WHEN ran THEN '已执行' ELSE '已放行' END AS outcome_zh
FROM read
WHERE len(found) > 0
