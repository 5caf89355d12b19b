// Writes a checkpoint atomically: a partial one is never mistaken for a complete one.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_WRITER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/train/checkpoint/checkpoint.h"

namespace dpipe {

// Suffix of the folder of a checkpoint that is not complete yet.
inline constexpr char kUnfinishedSuffix[] = ".unfinished";

inline constexpr char kStateFile[] = "state.json";
// Returns the file of one kind of tensor. Tensors in it are named after the parameters.
std::string TensorFileName(const std::string& kind);

// Writes a checkpoint to `folder` in these steps:
// 1. Writes each file to `folder` + ".unfinished" and flushes it to disk, the manifest last.
// 2. Renames the folder, replacing an older `folder`.
// 3. Flushes the new name.
//
// If the process or machine stops at any instant, either the previous state or the complete new
// checkpoint remains. Tensors are written in place, without a copy. After an error nothing is left
// behind and an older `folder` is unchanged, unless step 3 fails. IsDiskFull is true for the error
// if the disk is full. Returns the bytes written.
absl::StatusOr<int64_t> WriteCheckpoint(const std::string& folder,
                                        const CheckpointContent& content);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_WRITER_H_
