# A line of a comment that begins with the number of a place in the step, or with a year, begins no
# list of Markdown.
s,(///<? )([0-9]+)\.( |$),\1\2\\.\3,
# To Doxygen a macro before `private:` looks like the head of a constructor.
s/^ *FORWARD_HAS_DEFAULT_ARGS.*//
