// ctest:
// Trains on a csv file with the columns rooms, area, city and price: table [FILE].
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <ikebana.hpp>
#include <ikebana/files/csv.hpp>
#include <ikebana/modules/standard_scaler.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

std::string write_houses() {
  const std::string path = std::filesystem::temp_directory_path() / "ikebana-houses.csv";
  std::ofstream file(path);
  file << "rooms,area,city,price\n";
  for (int i = 0; i < 600; ++i)
    file << 1 + i % 5 << ',' << 30 + i * 7 % 90 << (i % 3 == 0 ? ",Oslo," : ",\"Lima, PE\",")
         << (30 + i * 7 % 90) * (i % 3 == 0 ? 2000 : 900) + i % 5 * 5000 << '\n';
  return path;
}

int main(int count, char** arguments) {
  torch::manual_seed(0);
  const Table table = read_csv(count > 1 ? arguments[1] : write_houses());
  const at::Tensor city = at::one_hot(table.categories("city").codes);
  const at::Tensor x = at::cat({table.tensor({"rooms", "area"}), city.to(at::kFloat)}, 1);
  const at::Tensor y = table.tensor({"price"}) / 1e5;
  const std::int64_t n = table.rows() * 4 / 5;  // training rows
  nn::Sequential model(modules::StandardScaler::fit(x.slice(0, 0, n)), nn::Linear(x.size(1), 32),
                       nn::ReLU(), nn::Linear(32, 1));
  const TensorDataset rows(x.slice(0, 0, n), y.slice(0, 0, n));
  DataLoader training{rows, {.batch_size = 32, .shuffle = true}};
  DataLoader validation{TensorDataset(x.slice(0, n), y.slice(0, n)), {.batch_size = 64}};
  Trainer trainer{model, MSELoss{}, AdamW{.lr = 1e-2}};
  History history = trainer.fit(training, {.epochs = 30, .validate = validation});
  std::cout << table.describe() << "\nloss " << history.back().validation->loss << '\n';
  return history.back().validation->loss < 0.05 ? 0 : 1;
}
