// Learns a byte-pair vocabulary from the captions of a data set's metadata.jsonl.
//   bazel run //models/tokenizer:train_bpe -- --captions=FOLDER/metadata.jsonl --out=FOLDER
#include <gflags/gflags.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/json.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "models/tokenizer/bpe_trainer.h"

DEFINE_string(captions, "", "path of a metadata.jsonl whose \"text\" fields to learn from");
DEFINE_string(out, "", "folder for vocab.json, merges.txt and the two configs");
DEFINE_int32(max_merges, 200, "largest number of merges to learn");
DEFINE_int32(max_length, 32, "tokens per caption, including the start and end marks");
FLAG_RANGE(max_merges, 0, 1'000'000);
FLAG_RANGE(max_length, 3, 1'000'000);

namespace dpipe {
namespace {

absl::StatusOr<std::vector<std::string>> ReadCaptions(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  std::vector<std::string> captions;
  int line_number = 0;
  for (const auto line : absl::StrSplit(content, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    DPIPE_ASSIGN_OR_RETURN(const auto json,
                           ParseJsonObject(line, absl::StrCat(path, " line ", line_number)));
    if (!json.contains("text") || !json["text"].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", line_number, ": no string \"text\""));
    }
    captions.push_back(json["text"]);
  }
  return captions;
}

absl::Status Run() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("captions", FLAGS_captions));
  DPIPE_RETURN_IF_ERROR(RequireFlag("out", FLAGS_out));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> captions,
                         ReadCaptions(UserPath(FLAGS_captions)));
  BpeTrainerOptions options;
  options.max_merges = FLAGS_max_merges;
  const TrainedBpe bpe = TrainBpe(captions, options);
  const std::string out = UserPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(WriteTokenizerFolder(out, bpe, FLAGS_max_length));
  std::printf("%s: %zu captions, %zu merges, vocabulary of %zu\n", out.c_str(), captions.size(),
              bpe.merges.size(), bpe.vocabulary.size());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "train_bpe",
      "Learns a byte-pair vocabulary from captions.\n"
      "  bazel run //models/tokenizer:train_bpe -- --captions=FILE --out=FOLDER\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::Run);
}
