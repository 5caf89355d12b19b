// Writes a checkpoint so that nobody ever takes a part of it for a whole one.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_WRITER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/train/checkpoint.h"

namespace dpipe {

// The files of a folder that is not complete yet; its name is the checkpoint's with this after it.
inline constexpr char kUnfinishedSuffix[] = ".unfinished";

inline constexpr char kStateFile[] = "state.json";
// A file for each kind of tensor, whose names in it are the parameters'.
std::string TensorFileName(const std::string& kind);

// Everything is written to `folder` + ".unfinished", file by file, each flushed to the disk, the
// manifest last; then the folder gets its name, and that is flushed too. A process or a machine
// that stops at any instant leaves what was there before, or the new checkpoint, complete. An older
// `folder` is replaced. Tensors are written from where they are, without a copy. On error, nothing
// is left behind, and an older `folder` is as it was, unless the very last step fails, which sees
// to it that the new name is on the disk; IsDiskFull if that is full. Returns the bytes written.
absl::StatusOr<int64_t> WriteCheckpoint(const std::string& folder,
                                        const CheckpointContent& content);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_WRITER_H_
