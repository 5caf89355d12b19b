// Recognises what a file really is from its first bytes, for messages about a file that is not what
// its name says: a Git LFS pointer for an image, a web page for weights.
#ifndef DPIPE_CORE_BASE_TEXT_FILE_KIND_H_
#define DPIPE_CORE_BASE_TEXT_FILE_KIND_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace dpipe {

enum class FileKind {
  kUnknown,
  // Files whose content is missing.
  kEmpty,
  kZeros,
  kGitLfsPointer,
  kHtml,
  // Images.
  kJpeg,
  kPng,
  kWebp,
  kGif,
  kBmp,
  kTiff,
  kAvif,
  kHeic,
  kJpegXl,
  kJpeg2000,
  kIco,
  kPsd,
  kOpenExr,
  kSvg,
  // Archives and compressed files.
  kGzip,
  kBzip2,
  kXz,
  kZstd,
  kZip,
  kSevenZip,
  kRar,
  kTar,
  // Weights.
  kSafetensors,
  kPyTorchZip,  // torch.save since PyTorch 1.6
  kPickle,      // and torch.save before
  kGguf,
  kHdf5,
  // Tables and arrays.
  kParquet,
  kArrow,
  kNumpy,
  // Others.
  kVideo,
  kPdf,
  kXml,
  kJson,
  kText,
};

// The maximum number of first bytes that KindOfFile looks at.
constexpr size_t kFileKindBytes = 1024;

// Returns the kind of a file that begins with `first_bytes` (all of them, or kFileKindBytes). Looks
// at signatures only, so a damaged file has its kind too.
FileKind KindOfFile(absl::string_view first_bytes);

// Returns the kind with its article: "a Git LFS pointer", "an AVIF image".
const char* FileKindName(FileKind kind);

// Returns what to do if this kind is in the place of another: "run git lfs pull ...", as a clause
// without a full stop; "" if that depends on what was expected.
const char* FileKindAdvice(FileKind kind);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_FILE_KIND_H_
