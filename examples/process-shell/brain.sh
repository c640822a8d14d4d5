# Thinks one step: one line of JSON comes in, lines of JSON go out. It needs sh and sed alone and so
# understands plain text only; a real one will want jq.
#
# Keys come in the order of the alphabet, so the newest message ends right before "options". What is
# cut out of the line is still escaped as JSON, and is fit to go into a line again.

IFS= read -r step

newest() {
    printf '%s\n' "$step" | sed -n 's/.*"content":"\(.*\)","role":"'"$1"'}\],"options":.*/\1/p'
}

said=$(newest 'user"')
result=$(newest 'tool","toolCallId":"[^"]*"')

if [ -n "$result" ]; then # what we called has answered
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
