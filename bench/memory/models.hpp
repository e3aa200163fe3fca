#pragma once
// Defines the rows of the table, by the files that measure them, so that each is compiled alone.

namespace bench {

// Each prints rows and returns whether the bars of all hold.
bool language_rows();  ///< the rows of GPT, Llama and LSTM, and of tables for clicks
bool vision_rows();    ///< the rows of ViT, MLP-Mixer, ResNet and U-Net
bool gpt_rows();       ///< the rows of optimizers and precisions with which only the GPT is
                       ///< measured

/// Runs in a rank, whose process `launch` started: rank 0 prints, others do if a bar does not hold.
bool rank_rows();

}  // namespace bench
