# A line of a comment that begins with the number of a place in the step, or with a year, begins no
# list of Markdown.
s,(///<? )([0-9]+)\.( |$),\1\2\\.\3,
