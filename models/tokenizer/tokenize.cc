// Prints captions' token ids: a line of JSON, {"text": "a red circle"}, in; the padded ids as a
// JSON array, a line, out.
//   bazel run //models/tokenizer:tokenize -- --tokenizer=FOLDER < captions.jsonl
#include <iostream>
#include <string>

#include "core/base/run_paths.h"
#include "gflags/gflags.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "nlohmann/json.hpp"

DEFINE_string(
    tokenizer, "data/tiny_sd/tokenizer",
    "folder with vocab.json and merges.txt, or tokenizer.json, and tokenizer_config.json");

int main(int argc, char** argv) {
  gflags::SetUsageMessage("captions, as lines of JSON on the input, to token ids");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  const auto tokenizer = dpipe::ClipTokenizer::Load(dpipe::UserPath(FLAGS_tokenizer));
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << "\n";
    return 1;
  }
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("text") || !json["text"].is_string()) {
      std::cerr << "line " << number << " is not a JSON object with a \"text\"\n";
      return 1;
    }
    std::cout << nlohmann::json(tokenizer->Encode(json["text"].get<std::string>())).dump() << "\n";
  }
  return 0;
}
