#pragma once
// Includes the loggers that ikebana.hpp does not have: JSON lines, and event files of TensorBoard.
#include <ikebana/loggers/json_lines_logger.hpp>
#include <ikebana/loggers/tensorboard_logger.hpp>
