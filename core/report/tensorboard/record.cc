#include "core/report/tensorboard/record.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/crc32c.h"

namespace dpipe::report::tensorboard {
namespace {

constexpr uint32_t kMask = 0xa282ead8;
constexpr size_t kHeaderBytes = 12;
constexpr size_t kFooterBytes = 4;

std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

uint64_t FromLittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMask;
}

std::string FrameRecord(absl::string_view bytes) {
  const std::string length = LittleEndian(bytes.size(), 8);
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length), 4), bytes,
                      LittleEndian(MaskedCrc32c(bytes), 4));
}

absl::StatusOr<std::vector<std::string>> UnframeRecords(absl::string_view content) {
  std::vector<std::string> records;
  while (!content.empty()) {
    const auto damaged = [&](const char* what) {
      return absl::DataLossError(absl::StrCat("record ", records.size(), " ", what));
    };
    if (content.size() < kHeaderBytes + kFooterBytes) return damaged("is cut off");
    const absl::string_view length_bytes = content.substr(0, 8);
    if (FromLittleEndian(content.substr(8, 4)) != MaskedCrc32c(length_bytes)) {
      return damaged("has a wrong checksum of its length");
    }
    const uint64_t length = FromLittleEndian(length_bytes);
    if (length > content.size() - kHeaderBytes - kFooterBytes) return damaged("is cut off");
    const absl::string_view bytes = content.substr(kHeaderBytes, length);
    if (FromLittleEndian(content.substr(kHeaderBytes + length, 4)) != MaskedCrc32c(bytes)) {
      return damaged("has a wrong checksum");
    }
    records.emplace_back(bytes);
    content.remove_prefix(kHeaderBytes + length + kFooterBytes);
  }
  return records;
}

}  // namespace dpipe::report::tensorboard
