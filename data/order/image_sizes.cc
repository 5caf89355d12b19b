#include "data/order/image_sizes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/files/crc32c.h"
#include "core/base/files/file.h"
#include "data/fingerprint.h"

namespace dpipe {
namespace {

constexpr char kFirstLine[] = "dpipe image sizes 1";
// About 50 bytes per image: 20 million images.
constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int kMaxSide = 1 << 24;  // larger than any format allows

std::string LastLine(absl::string_view lines_above) {
  return absl::StrFormat("end %08x\n", Crc32c(lines_above));
}

bool ParseSide(absl::string_view text, int* side) {
  return absl::SimpleAtoi(text, side) && *side >= 1 && *side <= kMaxSide;
}

}  // namespace

ImageSizes::ImageSizes(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  const absl::StatusOr<std::string> text = ReadFile(path_, kMaxFileBytes);
  if (text.ok()) Parse(*text);
}

void ImageSizes::Parse(const std::string& text) {
  const size_t last = text.rfind("\nend ");
  if (last == std::string::npos) return;
  const absl::string_view above = absl::string_view(text).substr(0, last + 1);
  if (absl::string_view(text).substr(last + 1) != LastLine(above)) return;
  bool is_first = true;
  for (const absl::string_view line : absl::StrSplit(above, '\n', absl::SkipEmpty())) {
    const bool is_sound_first = line == kFirstLine;
    if (std::exchange(is_first, false)) {
      if (!is_sound_first) return;
      continue;
    }
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    Entry entry;
    if (words.size() != 3 || !ParseSide(words[1], &entry.size.width) ||
        !ParseSide(words[2], &entry.size.height)) {
      entries_.clear();
      return;
    }
    entries_[std::string(words[0])] = entry;
  }
}

std::vector<absl::StatusOr<ImageSize>> ImageSizes::Read(const SampleSource& source) {
  std::vector<int32_t> all(source.size());
  std::iota(all.begin(), all.end(), 0);
  return Read(source, all);
}

std::vector<absl::StatusOr<ImageSize>> ImageSizes::Read(const SampleSource& source,
                                                        const std::vector<int32_t>& indices) {
  std::vector<absl::StatusOr<ImageSize>> sizes(indices.size());
  std::vector<std::string> keys(indices.size());  // empty if it cannot be identified
  std::vector<char> is_new(indices.size(), false);
  // The threads only look entries up. Results are added afterwards.
  ReadInParallel(static_cast<int64_t>(indices.size()), [&](int64_t i) {
    const absl::StatusOr<std::string> identity = source.LoadIdentity(indices[i]);
    if (identity.ok()) {
      keys[i] = Fingerprint().Add(*identity).ToString();
      const auto found = entries_.find(keys[i]);
      if (found != entries_.end()) {
        sizes[i] = found->second.size;
        return;
      }
    }
    sizes[i] = source.LoadImageSize(indices[i]);
    is_new[i] = true;
  });
  for (size_t i = 0; i < indices.size(); ++i) {
    num_read_ += is_new[i];
    if (!sizes[i].ok() || keys[i].empty()) continue;
    has_new_ = has_new_ || is_new[i];
    entries_[keys[i]] = {*sizes[i], true};
  }
  return sizes;
}

absl::Status ImageSizes::Save() const {
  if (path_.empty() || !has_new_) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const auto& [key, entry] : entries_) {
    if (!entry.used) continue;
    lines.push_back(absl::StrCat(key, " ", entry.size.width, " ", entry.size.height, "\n"));
  }
  std::sort(lines.begin(), lines.end());
  std::string text = absl::StrCat(kFirstLine, "\n");
  for (const std::string& line : lines) absl::StrAppend(&text, line);
  return WriteFileAtomically(path_, text + LastLine(text));
}

}  // namespace dpipe
