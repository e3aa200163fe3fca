#pragma once
// The GPT of examples/models/gpt.hpp as a setting has it, with the weights of all contestants.
#include <models/gpt.hpp>

#include "setting.hpp"

namespace bench {

inline GPT gpt_of(const Setting& setting) {
  GPT model(GPTConfig{.layers = setting.number("layers"),
                      .width = setting.number("width"),
                      .heads = setting.number("heads"),
                      .context = setting.number("context")});
  if (setting.symbols() != 256)  // because 256 symbols are bytes
    model->token = model->replace_module(
        "token", torch::nn::Embedding(setting.symbols(), setting.number("width")));
  read_weights(setting, *model);
  return model;
}

}  // namespace bench
