// Compiles <ikebana/loggers.hpp>. No other part needs it, so a program without that header does not
// link it.
#include <ikebana/loggers/impl/event_file.ipp>
#include <ikebana/loggers/impl/json_lines_logger.ipp>
#include <ikebana/loggers/impl/tensorboard_logger.ipp>
