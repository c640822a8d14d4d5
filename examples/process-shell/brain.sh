# One step of the brain: reads one line of JSON, writes lines of JSON. It needs only sh and sed and
# therefore understands only plain text; use jq for a real brain.
#
# The newest message is the last one before "options". Its text is still escaped as JSON and can be
# written into a line again.

IFS= read -r step

newest=$(printf '%s\n' "$step" | sed -n 's/.*{"role":"\([a-z]*\)".*"content":"\(.*\)"}\],"options":.*/\1 \2/p')
case $newest in
*'{"role":"'*) newest= ;; # the newest message is no plain text, so an earlier one matched
esac

case $newest in
"tool "*) printf '{"text":"It is %s."}\n' "${newest#tool }" ;;
"user "*time*)
    echo '{"thinking":"The clock knows."}'
    echo '{"tool":{"name":"clock","input":{"zone":"UTC"}}}'
    ;;
"user "*) printf '{"text":"You said: %s"}\n' "${newest#user }" ;;
*) echo '{"error":"only plain text is understood"}' ;;
esac
