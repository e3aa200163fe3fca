#pragma once
// The rows of the table, by the files that measure them, so that each is compiled alone.

namespace bench {

// Each prints rows and returns whether the bars of all hold.
bool language_rows();  ///< of GPT, Llama and LSTM, and of tables for clicks
bool vision_rows();    ///< of ViT, MLP-Mixer, ResNet and U-Net
bool gpt_rows();       ///< of optimizers and precisions that only the GPT is measured with

/// Runs in a rank, whose process `launch` started: rank 0 prints, others do if a bar does not hold.
bool rank_rows();

}  // namespace bench
