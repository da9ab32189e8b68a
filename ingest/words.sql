-- What words say, in English and Chinese: who refuses, who says yes, who asks; what a tool's name and an address mean.
-- Read after ingest/macros.sql, whose words it uses. The sentences that the lists are held to stand in tests/detectors/test_words.py.

-- A text in its speaker's own words: lower case, plain apostrophes, without quotations, code and what cannot be seen.
CREATE OR REPLACE MACRO own_words(x) AS regexp_replace(regexp_replace(regexp_replace(translate(lower(x), '’‘＇`*', ''''''''),
  '[\x{200b}-\x{200f}\x{2060}\x{feff}\x{00ad}]', '', 'g'), '(?m)^\s*(>|\|).*$', '', 'g'), '"[^"\n]+"|“[^”]+”|「[^」]+」|『[^』]+』|«[^»]+»', ' ', 'g');
CREATE OR REPLACE MACRO sentences(x) AS list_filter(list_transform(string_split(regexp_replace(own_words(x), '([.!?]+[)\]'']*)\s+|([。！？；;…])', '\1\2' || chr(10), 'g'), chr(10)),
  lambda lam_t: trim(lam_t)), lambda lam_t: lam_t <> '');
CREATE OR REPLACE MACRO clauses(p_sentence) AS list_filter(list_transform(string_split_regex(p_sentence,
  '[,;:，、：（）()—]|\s-+\s|\b(but|however|because|although|though|since|while|whereas|so|and (i|we)|as (they|it|this|that)|due to)\b|但是?|不过|因为|由于|所以|因此'),
  lambda lam_t: trim(trim(lam_t), '.!。！ ')), lambda lam_t: lam_t <> '');
CREATE OR REPLACE MACRO is_question(p_sentence) AS regexp_matches(p_sentence, '[?？]|(吗|么|呢)[。！.!]*$|是否|能不能|可不可以|是不是|会不会|有没有|好不好|行不行|对不对|要不要');

-- The acts that a refusal can be about. Finding, seeing, thanking and waiting are none.
CREATE OR REPLACE MACRO acts_en() AS '(process|complete|do|proceed|perform|carry out|execute|fulfill?|honou?r|accommodate|help|assist|offer|provide|issue|grant|give|refund|reimburse|cancel|void'
  || '|send|e-?mail|message|notify|forward|transfer|pay|charge|wire|book|reserve|order|purchase|buy|delete|remove|erase|drop|wipe|update|change|modify|edit|alter|adjust|switch|upgrade|downgrade'
  || '|create|add|register|approve|authori[sz]e|allow|permit|make|submit|apply|deploy|publish|release|merge|share|export|disclose|waive|extend|comply|continue|go ahead|handle|arrange)';
CREATE OR REPLACE MACRO acts_zh() AS '(办理|处理|完成|执行|受理|提供|满足|协助|帮|退|取消|发送|发出|转账|付款|支付|扣款|预订|预定|订|下单|购买|删除|移除|修改|更改|更新|变更|改签|创建|新建|添加|批准|授权|开通|导出|分享|发布|部署|操作|继续|答应|同意|进行)';
CREATE OR REPLACE MACRO cannot_en() AS '(cannot|can''t|can not|could not|couldn''t|unable to|(not|\w+n''t|not be|\w+n''t be) able to|not (allowed|permitted|authori[sz]ed) to|not in a position to|(decline|refuse) to'
  || '|(no|\w+n''t have|not have|lack)( the| any)? (authority|permission|authori[sz]ation) to)';
CREATE OR REPLACE MACRO adverbs() AS '((\w+ly|just|now|also|then|even|really|yet|further|help you|in good (faith|conscience)) )*';
CREATE OR REPLACE MACRO refusing(p_clause) AS regexp_matches(p_clause, '\b(i|we|i''m|we''re|system)\b.{0,40}\b' || cannot_en() || ' ' || adverbs() || acts_en() || '\b')
  OR regexp_matches(p_clause, '^(sorry |unfortunately |regrettably )?(unable to|cannot|can''t|not able to) ' || adverbs() || acts_en() || '\b')
  OR regexp_matches(p_clause, '\b(must|have to|had to|need to) (respectfully )?(decline|refuse)\b|\bnot something (that )?(i|we) (can|am able|may|are able)\b|\b(against|violates?|violation of)( \w+)? (policy|policies|rules)\b|\b(do|does)(n''t| not) (allow|permit)\b')
  OR regexp_matches(p_clause, '\b(not|n''t)( \w+)? (possible|allowed|permitted|eligible|refundable)\b|\b(impossible|ineligible|non-?refundable|prohibited|forbidden)\b')
  OR regexp_matches(p_clause, '\b(cannot|can''t|can not|could not|couldn''t|must not|may not) (\w+ )?be (\w+ly )?(processed|completed|done|performed|carried out|executed|fulfilled|honou?red|accommodated|issued|granted'
     || '|refunded|reimbursed|cancell?ed|sent|transferred|paid|charged|booked|ordered|deleted|removed|updated|changed|modified|edited|created|added|approved|authori[sz]ed|allowed|submitted|deployed|shared|exported|waived)\b')
  OR regexp_matches(p_clause, '(无法|不能|不可以?|没办法|没法|无权|不便|不予|难以)(.{0,8})' || acts_zh() || '|(办理?|处理|退|改|取消|帮|发|订)不了|不(被)?允许|不支持|不符合.{0,6}(条件|规定|政策)|没有.{0,4}权限|恕难|违反.{0,6}(政策|规定)|拒绝.{0,4}(办理|处理|执行)');
-- No refusal of what was done: a question, a condition, a warning about later, an old trouble, what others say, a thing done in its place, a manner of speaking.
CREATE OR REPLACE MACRO refuses_nothing(p_sentence) AS is_question(p_sentence)
  OR regexp_matches(p_sentence, '(^|[^n] )(if|in case|whenever)\b.*(\bcannot\b|\bcan''t\b|\bunable\b|\bnot\b|n''t\b)|(如果|若|假如|要是|一旦|万一).*(无法|不能|不可)')
  OR regexp_matches(p_sentence, '\b(again|any ?more|any longer|from now on|going forward|next time|in (the )?future|afterwards?|later on|(once|after) (it|this|that|you|we|i|\w+ed|\w+ing|(the )?(payment|purchase|confirmation|order|booking|departure)))\b')
  OR regexp_matches(p_sentence, '\b(please note|note that|be aware|keep in mind|bear in mind|reminder|remember that)\b|请注意|温馨提示|提醒您|以后|今后|将来|下次|届时|再次|重复|(预订|支付|付款|确认|提交|完成|购买|下单|取消|修改|出票|发送)(之)?后')
  OR (regexp_matches(p_sentence, '\b(yesterday|earlier|previously|at first|initially|originally|last (time|week|month)|(the )?first (time|attempt|try))\b') AND regexp_matches(p_sentence, '\b(was|were|been)\b|could ?n[o'']t|\bnow\b'))
  OR regexp_matches(p_sentence, '\b(is|are|works?|working)? ?(now|since) (fixed|works?|resolved|done|sorted|fine)\b|(现在|现已|已经?)(恢复|解决|修复|好了|正常)')
  OR regexp_matches(p_sentence, '\b(you|he|she|they|customers?|users?|support|emails?|page|site|article|bank|vendor|ticket|policy|policies|rules?|terms|guidelines?|manual|documentation)( \w+)? (said|says|told|tells|claims?|claimed|mentioned|wrote|states?|reads?|asked|thought)\b.*(cannot|can''t|unable|not|n''t)')
  OR regexp_matches(p_sentence, '(您|你|他|她|客户|用户|对方|政策|条款|规定|页面)(上|中|里)?(说|写|规定|显示|提示|问).*(无法|不能|不可|不支持|不允许)')
  OR regexp_matches(p_sentence, '\b(so|but|instead|therefore)\b[, ]+(instead,? )?(i|we)(''ve| have)? ?(also |now |already |instead |just )?([a-z]{2,}ed|sent|made|put|did|found|bought|paid|got|(was|were) able)\b|(所以|因此|于是)(我)?(已|就|改|为您|帮您)|已(经)?(改|换)为')
  OR regexp_matches(p_sentence, '\b(enough|wait|imagine|emphasi[sz]e|stress|overstate|help but|no reason|nothing|not that|no one|nobody)\b|不能不|不得不|无法不|能不能|不可或缺|不可避免');
-- the sentences that refuse, each with its clause that does; most texts hold no word of refusal at all, and are not taken apart
CREATE OR REPLACE MACRO may_refuse(x) AS regexp_matches(x, '(?i)not|n.t\b|unable|declin|refus|impossible|ineligible|refundable|prohibited|forbidden|policy|policies|rules|无|不|没|难|拒绝|违反');
CREATE OR REPLACE MACRO refusals(x) AS CASE WHEN may_refuse(x) THEN list_filter(list_transform(list_filter(sentences(x), lambda lam_s: NOT refuses_nothing(lam_s)),
  lambda lam_s: {'sentence': lam_s, 'clause': list_filter(clauses(lam_s), lambda lam_c: refusing(lam_c))[1]}), lambda lam_s: lam_s.clause IS NOT NULL) ELSE [] END;
CREATE OR REPLACE MACRO says_refusal(x) AS coalesce(len(refusals(x)) > 0, false);

-- A yes to what was proposed. Weak: a word that as often only opens a sentence; it counts where nothing is asked.
CREATE OR REPLACE MACRO yes_negated(p_clause) AS regexp_matches(p_clause, '\b(not|no|never|before|until|unless|if|how|unsure|hardly)\b|n''t\b|\b(said|say|saying) yes\b|\bconfirm (whether|what|when|that you|(the|my) (price|total|cost|date|amount|details?|fee))|\bagree to disagree\b')
  OR regexp_matches(p_clause, '不是|不可以|不同意|不确认|不好|不行|不对|不要|不能|别|没有?同意|还没|未|如果|要是|若|能否|多少|什么|怎么');
CREATE OR REPLACE MACRO yes_strong(p_clause) AS regexp_matches(p_clause, '^(oh |well |then |ah |um+ |great |perfect |in that case )*(yes|yea|yeah|yep|yup|yes please|absolutely|definitely|certainly|of course|by all means|agreed|confirmed|approved|oui|ja|sí|sim|lgtm)\b|^(はい|네)')
  OR (NOT yes_negated(p_clause) AND (regexp_matches(p_clause, '\b(yes|go ahead|go for it|proceed|please do|do it|do so|do that|make it so|i (hereby |do |can |will |would like to )?(confirm|agree|approve)|confirmed|^confirm(ing)?|agreed|approved|sounds (good|great|fine|perfect)|works for me|fine (by|with) me|you have my (approval|consent|permission|ok))\b')
    OR regexp_matches(p_clause, '^((then|ok|okay|just|now) )*please (now )?(book|order|buy|send|pay|refund|update|change|delete|remove|add|create|make|submit|apply|issue|upgrade|downgrade) (it|this|that)( (now|then|please|for me))*$')
    OR regexp_matches(p_clause, '^(everything|all|that|this|it|that all)? ?(''s|is|looks|seems|sounds)? ?(all )?(correct|right|fine|good|great|perfect|ok|okay)( to me| with me)?$') AND regexp_matches(p_clause, ' |correct|''s')
    OR regexp_matches(p_clause, '是的|没问题|没错|同意|我确认|已?确认(办理|取消|预订|购买|支付|付款|退款|无误|执行|提交|操作|继续|修改|发送|了|吧)|可以(的|了|办|继续|取消|退|执行|提交|发)|就这么办|就这样|请?继续吧|请(继续|办理|执行|提交|操作)|办吧|照办|麻烦.{0,2}(办|处理|执行)')
    OR regexp_matches(p_clause, '^(是|可以|确认|批准|对)(的|吧|啊|呀|了|哦)*$')));
CREATE OR REPLACE MACRO yes_weak(p_clause) AS regexp_matches(p_clause, '^(sure|ok|okay|alright|all right|fine|correct|right|k|👍|✅)( thing| then| thanks| thank you| please)*$')
  OR regexp_matches(p_clause, '\b(i''m|i am|we''re|we are) (ok|okay|fine|good|happy) with\b') AND NOT yes_negated(p_clause) OR regexp_matches(p_clause, '^(好|行|嗯+|成|中)(的|吧|啊|呀|了|哦|滴)*$');
CREATE OR REPLACE MACRO yes_withdrawn(p_clause) AS regexp_matches(p_clause, '^(but |please |just |oh |actually |yes |no )*(wait|hold on|hang on|hold off|stop|no|nope|nah|not yet|not now|not so fast|no (thanks|thank you)|never ?mind|first )$|^(but |please |just |oh |actually |yes |no )*(wait|hold on|hang on|hold off|never ?mind|not yet) ')
  OR regexp_matches(p_clause, '^no (i|we|don''t|do not|wait|stop|hold|not)\b|\b(changed? my mind|let me think|need to think|on second thoughts?|scratch that|forget (it|about it)|(don''t|do not) (proceed|go ahead|continue|\w+ (it|this|that|anything|yet)))\b|\b(have|got|few|one|another|quick)( \w+)? (questions?|concerns?|doubts?)\b')
  OR regexp_matches(p_clause, '等一下|等等|稍等|先别|先不|算了|不用了|再想想|考虑一下|暂时不|不同意|不可以|^不(是|行|对|要|好)(的|了|吧)*$|(别|不要)(办|做|发|退|订|继续|执行)');
CREATE OR REPLACE MACRO yes_text(x) AS regexp_replace(regexp_replace(regexp_replace(trim(x, ' "“”'), '(?i),? (okay|ok|please|right|thanks)\?', '.', 'g'), '(?i)\b(can|could|would|will) you (please |just |kindly |now )*(go ahead|proceed|do (it|that|this))\b([^?]*)\?', 'please go ahead.', 'g'),
  '(?i)\bno (problem|objections?|worries|issues?)\b|\b(make|making|be|being|not|quite|pretty|i''m|i’m|are you|for) sure\b|\b(can''t|can’t|cannot|to) wait\b|\bwhy not\b', ' ', 'g');
CREATE OR REPLACE MACRO says_yes(x) AS coalesce((list_transform([sentences(yes_text(x))], lambda lam_s: list_transform([flatten(list_transform(list_filter(lam_s, lambda lam_q: NOT is_question(lam_q)), lambda lam_q: clauses(lam_q)))],
  lambda lam_c: len(list_filter(flatten(list_transform(lam_s, lambda lam_q: clauses(lam_q))), lambda lam_w: yes_withdrawn(rtrim(lam_w, '?？ ')))) = 0
    AND NOT regexp_matches(array_to_string(lam_s, ' '), '\b(yes|yeah|yep|sure|ok|okay),? but (first|before|what|how|why|when|is|are|can|could|will|would|do|does|not|let)\b')
    AND (len(list_filter(lam_c, lambda lam_w: yes_strong(lam_w))) > 0
      OR (len(list_filter(lam_c, lambda lam_w: yes_weak(lam_w))) > 0 AND len(list_filter(lam_s, lambda lam_q: is_question(lam_q))) = 0)))[1]))[1], false);
-- an agent that puts something before the user and asks for the yes
CREATE OR REPLACE MACRO asks_to_confirm(x) AS coalesce(regexp_matches(x, '(?i)\?|please|yes|let me know|请|是否|吗|要不要') AND (regexp_matches(lower(x), '\b(do|would|shall|should|may|can|could) (you|i|we)\b[^.?\n]*\b(proceed|go ahead|confirm|continue|like me to|want me to|approve)\b[^.?\n]*\?')
  OR regexp_matches(lower(x), '\bplease (confirm|reply|respond)\b|\b(reply|respond|answer|type|say|confirm)\b[^.?\n]{0,20}\byes\b|\b(is|are) (this|that|it|these|everything|all)[^.?\n]{0,30} (correct|ok|okay|right|fine|alright) ?\?|\bdo you (agree|approve|confirm)\b|\b(are you sure|ready to proceed)\b[^.?\n]*\?')
  OR regexp_matches(lower(x), '\blet me know (if|whether)\b[^.?\n]*\b(proceed|go ahead|confirm|correct|continue|okay|ok|works|like me to|want me to)\b')
  OR regexp_matches(x, '请您?(先)?(确认|回复)|是否(确认|继续|同意|需要我)|(可以|行|对|好|确认|继续|办理|同意)吗|要不要(我|继续)|需要我.{0,30}吗')), false);
-- What kind of act words name, in a text or in a tool's name. Booking, order and payment are things as often as acts: only their verbs count.
CREATE OR REPLACE MACRO acts_of(x) AS list_transform(list_filter([
  {'act': 'refund', 'named': regexp_matches(x, '\b(non-?)?refund(s|ed|ing|able)?\b|\breimburs|退款|退费|退货')}, {'act': 'cancel', 'named': regexp_matches(x, '\bcancel|\bvoid(ed|ing)?\b|取消|退订|退票')},
  {'act': 'send', 'named': regexp_matches(x, '\b(send(s|ing)?|sent|e-?mail(s|ed|ing)?|messag(e|es|ed|ing)|notif(y|ied|ying)|sms|forward(ed|ing)?)\b|发送|发出|转发|通知|发(邮件|短信|消息)')},
  {'act': 'pay', 'named': regexp_matches(x, '\b(pay(s|ing|out)?|paid|charg(e|ed|ing)|transfer(s|red|ring)?|wir(e|ed|ing)|(make|process|complete|issue|do|approve)( \w+){0,2} payments?)\b|转账|付款|支付|扣款|汇款|打款')},
  {'act': 'book', 'named': regexp_matches(x, '\b(book(s|ed)?|reserve(s|d)?|purchas(e|es|ed|ing)|buy(s|ing)?|bought|to order|(make|place|create|process|complete|do|submit)( \w+){0,2} (booking|reservation|order))\b|预订|预定|订购|下单|购买|订票')},
  {'act': 'delete', 'named': regexp_matches(x, '\b(delet|remov|eras|wip(e|ed|ing)\b|purg)|\bdrop(s|ped|ping)?\b|删除|移除|清空')},
  {'act': 'update', 'named': regexp_matches(x, '\b(updat|chang|modif|edit(s|ed|ing)?\b|alter(s|ed|ing)?\b|adjust|switch|upgrad|downgrad)|修改|更改|更新|变更|调整|改签|升级')},
  {'act': 'create', 'named': regexp_matches(x, '\b(creat(e|es|ed|ing)|add(s|ed|ing)?|register(s|ed|ing)?|insert(s|ed|ing)?)\b|创建|新建|添加|开通|注册')},
  {'act': 'grant', 'named': regexp_matches(x, '\b(grant(s|ed|ing)?|approv(e|es|ed|ing|al)|authori[sz](e|es|ed|ing))\b|授权|批准|授予')},
  {'act': 'publish', 'named': regexp_matches(x, '\b(deploy|publish|releas(e|es|ed|ing)\b|merg(e|es|ed|ing)\b)|发布|部署|上线')},
  {'act': 'share', 'named': regexp_matches(x, '\b(shar(e|es|ed|ing)|export(s|ed|ing)?|disclos(e|es|ed|ing)|upload(s|ed|ing)?)\b|导出|分享|共享|上传')}
  ], lambda lam_a: lam_a.named), lambda lam_a: lam_a.act);
-- the words of a tool's own name: mcp__shop__crm.delete_userAccounts -> delete user accounts; and the thing that it acts on, its last word that is no act
CREATE OR REPLACE MACRO tool_words(p_tool) AS trim(regexp_replace(regexp_extract(words(bare_tool(p_tool)), '([^.:/]*)$', 1), '[^\p{L}\p{N}]+', ' ', 'g'));
CREATE OR REPLACE MACRO tool_thing(p_tool) AS rtrim(list_filter(string_split(tool_words(p_tool), ' '), lambda lam_w: length(lam_w) > 2 AND NOT regexp_matches(lam_w,
  '^(refund|reimburse|cancel|void|send|sms|e?mail|message|notify|forward|pay|payout|charge|transfer|wire|book|reserve|purchase|buy|delete|remove|erase|wipe|purge|drop|update|change|modify|edit|alter|adjust|switch|upgrade|downgrade|create|add|register|insert|grant|approve|authori[sz]e|deploy|publish|release|merge|share|export|disclose|upload)$'))[-1], 's');
-- What a refusing clause refuses: the verb after its no; where that says little (process, issue, 办理), what else the clause names.
CREATE OR REPLACE MACRO refused_verb(p_clause) AS CASE WHEN regexp_matches(p_clause, '\b(non-?|not )refundable\b') THEN 'refund' ELSE
  regexp_extract(p_clause, cannot_en() || ' ' || adverbs() || acts_en() || '\b|(?:cannot|can''t|not) (?:\w+ly )?be (?:\w+ly )?(\w+)|(?:无法|不能|不可以?|不予)(?:.{0,8}?)' || acts_zh()) END;
CREATE OR REPLACE MACRO refused_acts(p_clause) AS acts_of(CASE WHEN regexp_matches(refused_verb(p_clause), '(^|(process|complet|do|done|proceed|perform|execut|fulfil|honou?r|accommodat|help|assist|offer|provid|issu|giv|mak|made|submit|appl|allow|permit|compl|continu|handl|arrang)(e|ed|n|y|ied)?|办理|处理|完成|执行|受理|提供|满足|协助|帮|操作|继续|答应|同意|进行)$')
  THEN p_clause ELSE refused_verb(p_clause) END);
-- "I cannot do this": nothing is named, so it is about what is on the table
CREATE OR REPLACE MACRO refuses_this(p_clause, p_refused) AS len(p_refused) = 0 AND regexp_matches(p_clause,
  '\b(this|that|it|so|your request|the request)\b|\b(help|assist|proceed|continue|comply|decline|refuse)( you)?( further)?$|(此|该|这|您的(请求|要求|申请))|(办理|处理|执行|完成|操作|受理|继续|协助|帮您?)$|不了$|恕难');
-- Is a refusal (its clause, its refused_acts) about that tool's act (acts_of its tool_words, its tool_thing)? Acts on things (update, create, send,
-- delete) must name the thing as well, or say "this".
CREATE OR REPLACE MACRO refuses_act(p_clause, p_refused, p_acts, p_thing) AS coalesce(CASE WHEN len(p_refused) = 0 THEN contains(p_clause, p_thing)
  ELSE list_has_any(p_refused, p_acts) AND (list_has_any(list_intersect(p_refused, p_acts), ['refund', 'cancel', 'pay', 'book', 'grant', 'publish'])
    OR p_thing IS NULL OR contains(p_clause, p_thing) OR regexp_matches(p_clause, '\b(this|that|it|these|those)\b|此|该|这')) END, false);
-- Numbers and codes that name a thing, lower case: order-7781, UDMOP1, IFOYYZ; no dates, no amounts.
CREATE OR REPLACE MACRO codes_in(x) AS list_distinct(list_transform(list_filter(regexp_extract_all(x, '[$€£¥]?[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?'),
  lambda lam_i: (regexp_full_match(lam_i, '[A-Z]{5,12}') OR regexp_matches(lam_i, '\d') AND length(lam_i) >= 4)
    AND NOT regexp_full_match(lam_i, '[$€£¥].*|\d{1,4}|\d{4}-\d\d-\d\d|\d+-?(st|nd|rd|th|am|pm|[a-z]+)')), lambda lam_i: lower(lam_i)));
-- a tool that hands the talk over to a person: transfer_to_human_agents, escalateToHuman, human_handoff, 转人工
CREATE OR REPLACE MACRO hands_over(p_tool) AS coalesce(regexp_matches(words(p_tool), '(transfer|hand|escalat|rout|forward|connect)[a-z]*[^a-z].*(human|operator|representative|supervisor|live[^a-z]?agent)|human[^a-z]?hand|转接?人工'), false);
-- JSON as text with its \u escapes read; as it stands where one of them is half a character
CREATE OR REPLACE MACRO json_text(j) AS CASE WHEN contains(j::VARCHAR, '\u') THEN coalesce(try(json(j)::VARCHAR), j::VARCHAR) ELSE j::VARCHAR END;
-- the values among a call's parameters, however deep, as lower-case texts; keys are none
CREATE OR REPLACE MACRO values_in(p_params) AS list_distinct(list_transform(list_transform(regexp_extract_all(json_text(p_params), '("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*)\s*[,}\]]', 1),
  lambda lam_j: coalesce(try(lam_j::JSON ->> '$'), lam_j)), lambda lam_j: lower(lam_j)));
-- Where something can be sent: mail:a@b.example, host:b.example, iban:..., account:..., wallet:..., phone: and its last ten digits. However it is
-- spelt: case, spaces, mailto:, markdown, [at] and [.], full-width or invisible characters, JSON's escapes.
CREATE OR REPLACE MACRO address_text(x) AS regexp_replace(regexp_replace(regexp_replace(regexp_replace(translate(lower(x), '＠．：／' || chr(160), '@.:/ '), '[\x{200b}-\x{200f}\x{2060}\x{feff}\x{00ad}]', '', 'g'),
  '\\[nrt"]', ' ', 'g'), '\s?[\[({](at|@)[\])}]\s?', '@', 'g'), '\s?[\[({](dot|\.)[\])}]\s?', '.', 'g');
CREATE OR REPLACE MACRO addresses_from(p_text) AS list_distinct(list_filter(flatten([
  list_transform(regexp_extract_all(p_text, '[a-z0-9._%+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24}'), lambda lam_m: 'mail:' || ltrim(lam_m, '.-')),
  list_transform(regexp_extract_all(p_text, '(?:h(?:tt|xx)ps?|ftp|wss?):(?:\\?/){2}[^\s"''<>)\]}\\|，。]+|\bwww\.[a-z0-9.-]+'), lambda lam_u: 'host:' || host_of(replace(lam_u, '\', ''))),
  list_transform(regexp_extract_all(p_text, '\b[a-z]{2}\d{2} ?[a-z0-9]{4}(?: ?[a-z0-9]{0,3}\d[a-z0-9]{0,3}){2,7}\b'), lambda lam_n: 'iban:' || replace(lam_n, ' ', '')),
  list_transform(regexp_extract_all(p_text, '(?:account|acct|账号|账户|卡号)[^\d+@]{0,24}(\d[\d -]{6,22}\d)', 1), lambda lam_a: 'account:' || regexp_replace(lam_a, '\D', '', 'g')),
  list_transform(list_filter(regexp_extract_all(p_text, '\b(?:0x[0-9a-f]{40}|bc1[a-z0-9]{20,60}|[13][a-z0-9]{25,34})\b'), lambda lam_w: NOT regexp_full_match(lam_w, '[0-9a-f]+')), lambda lam_w: 'wallet:' || lam_w),
  list_transform(regexp_extract_all(p_text, '\+\d[\d ()./-]{6,18}\d|\b1[3-9]\d{9}\b'), lambda lam_p: 'phone:' || right(regexp_replace(lam_p, '\D', '', 'g'), 10))
  ]), lambda lam_x: lam_x IS NOT NULL));
CREATE OR REPLACE MACRO addresses_in(x) AS CASE WHEN regexp_matches(x, '[@＠]|:(\\?/){2}|[wW]{3}[.．]|0[xX][0-9a-fA-F]{8}|[bB][cC]1|\+\d|\b1[3-9]\d{9}\b|[A-Za-z]{2}\d\d ?[A-Za-z0-9]{4} ?[A-Za-z0-9]*\d|(?i:acc(oun)?t)|账|卡号|[\[({](at|AT|@)[\])}]|[：／]|[A-Za-z0-9]{26}') THEN addresses_from(address_text(x)) ELSE [] END;
-- whom a mail, a ticket or a record is from, or about, by its own fields and headers; and the rest of it
CREATE OR REPLACE MACRO sender_field() AS '\\?"(?:[a-z]+[_-])*(?:from|sender|reply[_-]?to|author|requester|reporter|submitter|created[_-]?by|owner|contact|customer|client|user|e[_-]?mail|mail|phone)'
  || '(?:[_-]?(?:e?[_-]?mail|address|addr|phone))*\\?"\s*:\s*(?:\\?"[^"\\]*\\?"|\{[^{}]*\}|\[[^\[\]]*\])|(?:^|"|\\n)(?:from|sender|reply-to):[^"\\]*';
CREATE OR REPLACE MACRO senders_in(x) AS array_to_string(regexp_extract_all(lower(x), sender_field()), ' ');
CREATE OR REPLACE MACRO without_senders(x) AS regexp_replace(lower(x), sender_field(), ' ', 'g');
-- text that speaks to the agent; and text that asks anybody to send something somewhere
CREATE OR REPLACE MACRO commands_agent(x) AS coalesce(regexp_matches(lower(x), '\b(ignore|disregard|forget|override) (all |any )?(the |your |my )?(previous|prior|above|earlier|preceding|system|other)\b|\b(system|developer) (prompt|override)\b|\bnew instructions?\b'
  || '|<\s*/?(important|system|information|instructions?|admin)\s*>|\b(you are|as) an? (ai|assistant|agent|language model)\b|\bdo(n''t| not) (tell|inform|mention|show|alert) |\b(ai|assistant|agent)s?,?( \w+)? (must|should|please|need to|are to)\b|\b(note|message|instructions?|attention|reminder|task)s? (to|for) (the |all |any |every |you,? (the )?)?(ai|llm|assistant|agent|(language )?model|chat ?bot)s?\b'
  || '|\b(ai|assistant|agent)s?\s*[:,]\s*((now|first|also|immediately|then) )?(open|visit|fetch|call|click|send|forward|mail|e-?mail|post|upload|submit|transfer|wire|pay|copy|delete|run|execute|reply)\b|忽略(之前|以上|先前|上述|前面)|不要(告诉|告知|通知)|(系统|新的?)(提示|指令)|(智能体|助手).{0,6}(必须|请|应)'), false);
CREATE OR REPLACE MACRO asks_to_send(x) AS coalesce(regexp_matches(lower(x), '\b(send|forward|transfer|wire|pay|e-?mail|post|upload|submit|copy|deposit|reply)\b.{0,120}\b(to|at|into)\b|\b(visit|go to|click|open|call|fetch)\b.{0,40}(https?:|www\.|\+\d)|(转|发|汇|付|打款|提交|上传|存|访问|联系).{0,40}(到|至|给|入|http)'), false);
-- an error by which a tool says that it may not, rather than that it could not
CREATE OR REPLACE MACRO forbids(p_error) AS coalesce(regexp_matches(lower(p_error), '\b(not|n''t) (\w+ )?(allowed|permitted|authori[sz]ed|eligible)\b|\b(forbidden|unauthori[sz]ed|prohibited|access denied|permission denied|insufficient (permissions?|privileges?|scope)|against policy|policy violation)\b|\b40[13]\b|不允许|没有权限|无权|禁止|拒绝访问'), false);
