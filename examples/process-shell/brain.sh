# One step of the brain: reads one line of JSON, writes lines of JSON. It needs only sh and sed and
# therefore understands only plain text; use jq for a real brain.
#
# Keys are in alphabetical order, so the newest message ends right before "options". The extracted text
# is still escaped as JSON and can be written into a line again.

IFS= read -r step

newest() {
    printf '%s\n' "$step" | sed -n 's/.*"content":"\(.*\)","role":"'"$1"'}\],"options":.*/\1/p'
}

said=$(newest 'user"')
result=$(newest 'tool","toolCallId":"[^"]*"')

if [ -n "$result" ]; then # the result of the tool call
    printf '{"text":"It is %s."}\n' "$result"
else
    case $said in
    *time*)
        echo '{"thinking":"The clock knows."}'
        echo '{"tool":{"name":"clock","input":{"zone":"UTC"}}}'
        ;;
    '') echo '{"error":"only plain text is understood"}' ;;
    *) printf '{"text":"You said: %s"}\n' "$said" ;;
    esac
fi
