#ifndef KILN_CLIENT_PYTHON_NATIVE_DLPACK_ABI_H_
#define KILN_CLIENT_PYTHON_NATIVE_DLPACK_ABI_H_

/* The part of DLPack's binary interface, major version 1, that tensors cross
 * by: its structs as the specification lays them out, declared by us so that
 * nothing of a framework is needed to build. */

#include <stdint.h>

enum { kDlpackMajor = 1 };
enum { kDlpackCpu = 1, kDlpackCuda = 2 };

/* Codes of element types; the width in bits stands beside. */
enum {
  kDlpackInt = 0,
  kDlpackUInt = 1,
  kDlpackFloat = 2,
  kDlpackBfloat = 4,
  kDlpackBool = 6
};

typedef struct DlpackVersion {
  uint32_t major;
  uint32_t minor;
} DlpackVersion;

typedef struct DlpackDevice {
  int32_t type;
  int32_t ordinal;
} DlpackDevice;

typedef struct DlpackType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DlpackType;

typedef struct DlpackTensor {
  void* data;
  DlpackDevice device;
  int32_t rank;
  DlpackType type;
  int64_t* sizes;
  int64_t* strides; /* in elements */
  uint64_t byte_offset;
} DlpackTensor;

/* A tensor with its owner. */
typedef struct DlpackManaged {
  DlpackVersion version;
  void* context;
  void (*deleter)(struct DlpackManaged* self);
  uint64_t flags;
  DlpackTensor tensor;
} DlpackManaged;

/* The table a framework's tensor class carries in the capsule
 * "dlpack_exchange_api". Functions give 0, or -1 with a Python exception set. */
typedef struct DlpackExchange {
  DlpackVersion version;
  void* older; /* tables of earlier major versions */
  int (*allocate)(DlpackTensor* like, DlpackManaged** out, void* error_context,
                  void (*set_error)(void* context, const char* kind,
                                    const char* message));
  int (*share)(void* object, DlpackManaged** out);
  int (*wrap)(DlpackManaged* tensor, void** object); /* takes `tensor` */
  int (*look)(void* object, DlpackTensor* out);      /* good for the call */
  int (*stream)(int32_t device_type, int32_t ordinal, void** out);
} DlpackExchange;

#endif /* KILN_CLIENT_PYTHON_NATIVE_DLPACK_ABI_H_ */
