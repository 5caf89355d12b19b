// The list of a checkpoint's files, written last. Only files that match it are part of a complete
// checkpoint.
//
//   dpipe checkpoint 1
//   step 1234
//   file 9633472 1a2b3c4d weight.safetensors
//   file 4711 99887766 state.json
//   end 5a5a5a5a
//
// Sizes are in bytes, checksums are CRC-32C; the last one is that of the lines above it.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_MANIFEST_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/base/files/durable_file.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"

namespace dpipe {

inline constexpr char kManifestFile[] = "MANIFEST";

struct CheckpointManifest {
  int64_t step = 0;
  std::map<std::string, FileDigest> files;  // by name
};

std::string ManifestText(const CheckpointManifest& manifest);
// Returns DataLoss with the line that is wrong.
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text);

// Names of element types in safetensors files.
//
// Returns "F32", "BF16" or "I32".
std::string SafetensorsDtype(DType dtype);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_MANIFEST_H_
