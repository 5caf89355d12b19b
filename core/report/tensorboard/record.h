// TFRecord framing: the layout of records in TensorFlow's files.
#ifndef DPIPE_CORE_REPORT_TENSORBOARD_RECORD_H_
#define DPIPE_CORE_REPORT_TENSORBOARD_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::report::tensorboard {

// Returns the CRC-32C, rotated right by 15 bits plus a constant. Masking is needed because a plain
// CRC is weak on data that contains checksums.
uint32_t MaskedCrc32c(absl::string_view bytes);

// Returns the record as stored in a file, little-endian: 8 bytes of length, its checksum in 4
// bytes, the data, its checksum in 4 bytes.
std::string FrameRecord(absl::string_view bytes);

// Returns the records in a file's content. Returns DataLoss, naming the record, if a checksum is
// wrong or a record is truncated.
absl::StatusOr<std::vector<std::string>> UnframeRecords(absl::string_view content);

}  // namespace dpipe::report::tensorboard

#endif  // DPIPE_CORE_REPORT_TENSORBOARD_RECORD_H_
