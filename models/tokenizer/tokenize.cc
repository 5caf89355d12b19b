// Prints token ids of captions. Input: one JSON object per line, {"text": "a red circle"}. Output:
// the padded ids as one JSON array per line.
//   bazel run //models/tokenizer:tokenize -- --tokenizer=FOLDER < captions.jsonl
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/json.h"
#include "core/command_line/command_line.h"
#include "gflags/gflags.h"
#include "models/tokenizer/clip_tokenizer.h"

DEFINE_string(
    tokenizer, "data/tiny_sd/tokenizer",
    "folder with vocab.json and merges.txt, or tokenizer.json, and tokenizer_config.json");

namespace {

absl::Status Run() {
  DPIPE_ASSIGN_OR_RETURN(const auto tokenizer,
                         dpipe::ClipTokenizer::Load(dpipe::UserPath(FLAGS_tokenizer)));
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    DPIPE_ASSIGN_OR_RETURN(const auto json,
                           dpipe::ParseJsonObject(line, absl::StrCat("line ", number)));
    if (!json.contains("text") || !json["text"].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " is not a JSON object with a \"text\""));
    }
    std::cout << nlohmann::json(tokenizer.Encode(json["text"].get<std::string>())).dump() << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "tokenize",
      "Turns captions on standard input, lines of JSON with a \"text\", into token ids.\n"
      "  bazel run //models/tokenizer:tokenize < FOLDER/metadata.jsonl\n"};
  return dpipe::RunCommand(argc, argv, command, Run);
}
