// Finds the positions of the members of a tar file, so that each can be read without the others.
//
// Reads ustar headers with pax ("x") and GNU ("L", base-256 sizes) extensions, as written by GNU
// tar, BSD tar and Python's tarfile [POSIX.1-2017, pax, "ustar Interchange Format"]. Archives
// joined by `cat a.tar b.tar` are read one after another, as by `tar --ignore-zeros`. Libraries are
// no alternative: they return members one after another, while training reads them in an order that
// depends on (seed, epoch) alone. A compressed tar does not allow that; the error says how to
// unpack it.
//
// The file may be malicious. Checksums are verified, sizes are checked against the file before use,
// and names, members and extension headers are limited. Nothing is ever unpacked, so names like
// "../x" and links have no effect.
#ifndef DPIPE_DATA_TARS_TAR_INDEX_H_
#define DPIPE_DATA_TARS_TAR_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// A regular file in a tar.
struct TarMember {
  std::string name;  // without a leading "./"
  int64_t offset;    // of the first byte in the tar
  int64_t size;
  int32_t archive;  // number of the joined archive, from 0
};

struct TarIndex {
  std::vector<TarMember> members;  // in the file's order, without folders, links and devices
  int64_t num_links = 0;           // symbolic or hard
  int64_t file_bytes = 0;
  // The reason why members may be missing, with its place: "x.tar: at byte 1024 of 1500: ...".
  // Empty if the file is whole. If it is not empty, the last member may be truncated by the end of
  // the file.
  std::string damage;
  // Describes bytes after the last end mark that are neither padding nor an archive. Empty if none.
  std::string rest;
};

struct TarLimits {
  int64_t max_members = 10'000'000;  // of any kind
  int64_t max_name_bytes = 4096;
  int64_t max_extension_bytes = 1 << 20;  // a pax or long-name header
  int64_t max_padding_bytes = 1 << 20;    // zeros after an end mark; tar writes less than 10 KiB
};

// Reads 512 bytes per header. Reads a damaged file up to a header with a wrong checksum or a
// malformed extension, or to the end of a file without an end mark. (The end mark is two blocks of
// zeros; one is enough here. A file that was truncated between members lacks it.)
//
// - Returns NotFound if the file is missing, and Unavailable if it cannot be read.
// - Returns InvalidArgument if it is not a regular file, or not a tar (then it names the kind), or
//   exceeds a limit.
// - Returns Unimplemented for a sparse member.
absl::StatusOr<TarIndex> ReadTarIndex(const std::string& path, const TarLimits& limits = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_TARS_TAR_INDEX_H_
