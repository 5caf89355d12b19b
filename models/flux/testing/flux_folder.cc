#include "models/flux/testing/flux_folder.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"

namespace dpipe::models {

namespace fs = std::filesystem;

void WriteSmallFlux(const std::string& folder) {
  fs::remove_all(folder);
  fs::copy("models/flux/testdata/tiny", folder, fs::copy_options::recursive);
  fs::copy("data/tiny_sd/tokenizer", folder + "/tokenizer");
  fs::create_directory(folder + "/tokenizer_2");
  fs::copy("models/tokenizer/testdata/t5/spiece.model", folder + "/tokenizer_2/spiece.model");
  const absl::Status status =
      WriteFileAtomically(folder + "/tokenizer_2/tokenizer_config.json",
                          absl::StrCat("{\"tokenizer_class\": \"T5Tokenizer\", \"extra_ids\": 100, "
                                       "\"model_max_length\": ",
                                       kSmallFluxTokens, "}\n"));
  DPIPE_CHECK(status.ok()) << status;
}

}  // namespace dpipe::models
