// The list of a checkpoint's files, written last: what is not in it, or not as it says, is no part
// of a complete checkpoint.
//
//   dpipe checkpoint 1
//   step 1234
//   file 9633472 1a2b3c4d weight.safetensors
//   file 4711 99887766 state.json
//   end 5a5a5a5a
//
// Sizes in bytes, checksums are CRC-32C; the last one is of the lines above it.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_MANIFEST_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/base/durable_file.h"
#include "core/base/status.h"

namespace dpipe {

inline constexpr char kManifestFile[] = "MANIFEST";

struct CheckpointManifest {
  int64_t step = 0;
  std::map<std::string, FileDigest> files;  // by name
};

std::string ManifestText(const CheckpointManifest& manifest);
// DataLoss says which line is wrong.
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_MANIFEST_H_
