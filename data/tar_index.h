// Where the members of a tar file lie, so that any of them can be read without the others.
//
// Reads ustar headers with pax ("x") and GNU ("L", base-256 sizes) extensions: what GNU tar, BSD
// tar and Python's tarfile write [POSIX.1-2017, pax, "ustar Interchange Format"]. Archives that
// were joined by `cat a.tar b.tar` are read one after another, as by `tar --ignore-zeros`. Our own
// reader and not a library's, as those hand out members one after another, and training reads them
// in an order that is a function of (seed, epoch) alone. A compressed tar has no such places, and
// the error says how to unpack it.
//
// The file may be anything. Checksums are checked, sizes are checked against the file before they
// are used, and names, members and extension headers are bounded. Nothing is ever unpacked, so a
// name is no more than a name: neither "../x" nor a link leads anywhere.
#ifndef DPIPE_DATA_TAR_INDEX_H_
#define DPIPE_DATA_TAR_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// A regular file in a tar.
struct TarMember {
  std::string name;  // without "./" in front
  int64_t offset;    // of its first byte in the tar
  int64_t size;
  int32_t archive;  // of those joined to this file, from 0
};

struct TarIndex {
  std::vector<TarMember> members;  // in the file's order; folders, links and devices are left out
  int64_t num_links = 0;           // symbolic or hard
  int64_t file_bytes = 0;
  // Why members may be missing, with the place: "x.tar: at byte 1024 of 1500: ..."; empty if the
  // file is whole. The last member may then end past the file: it was cut off.
  std::string damage;
  // What follows the last end mark and is neither padding nor an archive; empty: nothing.
  std::string rest;
};

struct TarLimits {
  int64_t max_members = 10'000'000;  // of any kind
  int64_t max_name_bytes = 4096;
  int64_t max_extension_bytes = 1 << 20;  // a pax or long-name header
  int64_t max_padding_bytes = 1 << 20;    // zeros after an end mark; tar writes less than 10 KiB
};

// Reads 512 bytes per header. What can be read of a damaged file is read: up to a header with a
// wrong checksum or a malformed extension, or to the end of a file without an end mark (two blocks
// of zeros; one is enough here), which is how a cut between members shows.
//
// NotFound: no such file; Unavailable: it cannot be read. InvalidArgument: not a regular file, or
// not a tar, in which case it says what it is, or over a limit. Unimplemented: a sparse member.
absl::StatusOr<TarIndex> ReadTarIndex(const std::string& path, const TarLimits& limits = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_TAR_INDEX_H_
