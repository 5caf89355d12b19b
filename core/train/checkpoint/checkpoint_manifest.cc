#include "core/train/checkpoint/checkpoint_manifest.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/files/crc32c.h"

namespace dpipe {

namespace {

constexpr char kFirstLine[] = "dpipe checkpoint 1";

std::string LastLine(absl::string_view lines_above) {
  return absl::StrFormat("end %08x\n", Crc32c(lines_above));
}

absl::Status LineError(absl::string_view line) {
  return absl::DataLossError(absl::StrCat("the manifest has an invalid line '", line, "'"));
}

// True for a name in the folder itself.
bool IsFileName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == absl::string_view::npos;
}

absl::Status ParseLine(absl::string_view line, CheckpointManifest* manifest) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
  if (words.size() == 2 && words[0] == "step" && absl::SimpleAtoi(words[1], &manifest->step)) {
    return absl::OkStatus();
  }
  FileDigest digest;
  if (words.size() != 4 || words[0] != "file" || !absl::SimpleAtoi(words[1], &digest.size) ||
      !absl::SimpleHexAtoi(words[2], &digest.crc32c) || !IsFileName(words[3])) {
    return LineError(line);
  }
  manifest->files[std::string(words[3])] = digest;
  return absl::OkStatus();
}

}  // namespace

std::string ManifestText(const CheckpointManifest& manifest) {
  std::string text = absl::StrCat(kFirstLine, "\nstep ", manifest.step, "\n");
  for (const auto& [name, digest] : manifest.files) {
    absl::StrAppendFormat(&text, "file %d %08x %s\n", digest.size, digest.crc32c, name);
  }
  return text + LastLine(text);
}

absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text) {
  const size_t last = text.rfind("\nend ");
  if (last == std::string::npos) return absl::DataLossError("the manifest has no last line");
  const absl::string_view above = absl::string_view(text).substr(0, last + 1);
  if (text.substr(last + 1) != LastLine(above)) {
    return absl::DataLossError("the manifest is damaged: its own checksum does not match");
  }
  std::vector<absl::string_view> lines = absl::StrSplit(above, '\n', absl::SkipEmpty());
  if (lines.empty() || lines[0] != kFirstLine) {
    return absl::DataLossError(absl::StrCat("the manifest does not begin with '", kFirstLine, "'"));
  }
  CheckpointManifest manifest;
  for (size_t i = 1; i < lines.size(); ++i) {
    DPIPE_RETURN_IF_ERROR(ParseLine(lines[i], &manifest));
  }
  return manifest;
}

std::string SafetensorsDtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kI32:
      return "I32";
  }
  DPIPE_CHECK(false) << "an element type without a name: " << static_cast<int>(dtype);
  return "";
}

}  // namespace dpipe
