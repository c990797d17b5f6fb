// A file system that forgets what was not fsynced when its power is cut.
//
//	power-loss MOUNTPOINT FOLDER SEED [strict] [ordered] [lies]
//
// It shows what is in FOLDER, which counts as durable, under MOUNTPOINT, and says "mounted". All that programs change is kept in memory. The
// line "cut" on its standard input is the power loss: each operation fails with EIO from then on, but for what the kernel still knows; what
// survived is written to FOLDER in the place of what was there, and it says "cut". At the end of its input it unmounts and ends; without a cut FOLDER is as it was.
//
// What survives, by the seed:
//
//   - Data that was written before an answered fsync or fdatasync of its file, or through a descriptor with O_SYNC or O_DSYNC, survives (POSIX:
//     fsync, open). What is written through a mapping is as if it were written when the kernel sends the page, and msync is an fsync. sync,
//     sync_file_range and RWF_DSYNC do not come here: they make nothing durable.
//   - Each other write survives whole, not at all, or torn between sectors of 512 bytes, and a later one may survive where an earlier one does
//     not: POSIX promises no order, and programs that rest on one lose data (ALICE: Pillai et al., OSDI 2014; LazyFS: Ramos et al., VLDB 2024).
//     A gap reads as zeros, as where a size is durable before the data.
//   - Truncations survive in their order, and a write behind one that is lost is lost, too.
//   - Names (create, link, rename, remove) go to one journal, in order, as on ext4 with data=ordered. An fsync commits it as far as to the last
//     change of that file or folder: with the fsync of a new file its name is durable, and each name before it (CrashMonkey: Mohan et al., OSDI
//     2018). Of the rest a prefix survives. ext4 is gentler in one thing: it also writes the data of a file that is renamed over another one
//     (auto_da_alloc), which it promises to no program.
//   - strict: what POSIX alone promises. A name is durable when its folder was fsynced; each folder has a journal of its own, and a file in a
//     folder whose own name is not durable is lost with it.
//   - ordered: what was written to a file survives in its order, as the kernel sent it: none of it is torn within a page.
//   - lies: a disk that answers each fsync and does nothing, to see that a check finds out what that costs.
//   - Owner, mode and times of what survives are the last ones. Locks are the kernel's, and end with the processes.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"maps"
	"math/rand"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	page   = 4096
	sector = 512
)

// Bytes of a file; a page that is missing is zeros. A page is never changed, only replaced: images share them.
type image struct {
	size  int64
	pages map[int64][]byte
}

func (i *image) clone() image { return image{i.size, maps.Clone(i.pages)} }

func (i *image) write(data []byte, offset int64) {
	for len(data) > 0 {
		number, begin := offset/page, offset%page
		next := make([]byte, page)
		copy(next, i.pages[number])
		length := copy(next[begin:], data)
		i.pages[number] = next
		data, offset = data[length:], offset+int64(length)
	}
	i.size = max(i.size, offset)
}

func (i *image) read(into []byte, offset int64) []byte {
	into = into[:max(0, min(int64(len(into)), i.size-offset))]
	for rest := into; len(rest) > 0; {
		number, begin := offset/page, offset%page
		part := rest[:min(int64(len(rest)), page-begin)]
		clear(part)
		if found := i.pages[number]; found != nil {
			copy(part, found[begin:])
		}
		rest, offset = rest[len(part):], offset+int64(len(part))
	}
	return into
}

func (i *image) resize(size int64) {
	if last := size / page; size < i.size && i.pages[last] != nil {
		next := make([]byte, page)
		copy(next, i.pages[last][:size%page])
		i.pages[last] = next
	}
	for number := range i.pages {
		if number*page >= size {
			delete(i.pages, number)
		}
	}
	i.size = size
}

// A change of a file that is not durable: bytes at an offset, or, without bytes, a size.
type change struct {
	data   []byte
	offset int64
}

func (c change) apply(to *image) {
	if c.data == nil {
		to.resize(c.offset)
	} else {
		to.write(c.data, c.offset)
	}
}

// A change of names that is not durable.
type entry struct {
	number  int
	folders []*node
	apply   func()
}

type disk struct {
	sync.Mutex
	strict, ordered, lies bool
	isCut                 bool
	// How many entries the journal has had, and those that are not durable.
	count   int
	journal []entry
}

// A file, folder, link or socket.
type node struct {
	fs.Inode
	disk   *disk
	attr   fuse.Attr
	target []byte
	// What programs see, and what is durable.
	live, safe image
	pending    []change
	// The durable names of a folder.
	names map[string]*node
	// The journal's entry behind which this node is durable.
	last int
}

type handle struct{ isSync bool }

func (d *disk) newNode(mode, uid, gid uint32) *node {
	n := &node{disk: d, names: map[string]*node{}}
	n.live.pages, n.safe.pages = map[int64][]byte{}, map[int64][]byte{}
	n.attr = fuse.Attr{Mode: mode, Owner: fuse.Owner{Uid: uid, Gid: gid}, Nlink: 1, Blksize: page}
	now := time.Now()
	n.attr.SetTimes(&now, &now, &now)
	return n
}

// Every operation, one at a time.
func (n *node) do(work func() syscall.Errno) syscall.Errno {
	n.disk.Lock()
	defer n.disk.Unlock()
	if n.disk.isCut {
		return syscall.EIO
	}
	return work()
}

func ok() syscall.Errno { return fs.OK }

func nodeOf(inode *fs.Inode) *node { return inode.Operations().(*node) }

func (n *node) touch() {
	now := time.Now()
	n.attr.SetTimes(nil, &now, &now)
}

// Changes names in these folders, of this child.
func (d *disk) rename(child *node, apply func(), folders ...*node) syscall.Errno {
	d.count++
	for _, each := range append(folders, child) {
		each.last = d.count
		each.touch()
	}
	d.journal = append(d.journal, entry{d.count, folders, apply})
	return fs.OK
}

func (n *node) change(c change) {
	before := n.live.size
	c.apply(&n.live)
	n.pending = append(n.pending, c)
	if n.live.size != before {
		n.last = n.disk.count
	}
	n.touch()
}

func (n *node) makeDurable() syscall.Errno {
	d := n.disk
	if d.lies {
		return fs.OK
	}
	for _, each := range n.pending {
		each.apply(&n.safe)
	}
	n.pending = nil
	// From the newest entry to the oldest: with an entry of several folders, all that was before it in each of them.
	folders := map[*node]bool{n: true}
	isIn := func(folder *node) bool { return folders[folder] }
	var done, rest []entry
	for _, each := range slices.Backward(d.journal) {
		if !d.strict && each.number <= n.last || d.strict && slices.ContainsFunc(each.folders, isIn) {
			for _, folder := range each.folders {
				folders[folder] = true
			}
			done = append(done, each)
		} else {
			rest = append(rest, each)
		}
	}
	for _, each := range slices.Backward(done) {
		each.apply()
	}
	slices.Reverse(rest)
	d.journal = rest
	return fs.OK
}

func (n *node) tell(out *fuse.Attr) syscall.Errno {
	ino := out.Ino
	*out = n.attr
	out.Ino, out.Size, out.Blocks = ino, uint64(max(n.live.size, int64(len(n.target)))), uint64(len(n.live.pages)*page/sector)
	return fs.OK
}

func (n *node) Lookup(_ context.Context, name string, out *fuse.EntryOut) (child *fs.Inode, errno syscall.Errno) {
	errno = n.do(func() syscall.Errno {
		if child = n.GetChild(name); child == nil {
			return syscall.ENOENT
		}
		return nodeOf(child).tell(&out.Attr)
	})
	return
}

func (n *node) Opendir(context.Context) syscall.Errno { return n.do(ok) }

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.do(func() syscall.Errno { return n.tell(&out.Attr) })
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.do(func() syscall.Errno {
		if mode, is := in.GetMode(); is {
			n.attr.Mode = n.attr.Mode&syscall.S_IFMT | mode&^syscall.S_IFMT
		}
		if uid, is := in.GetUID(); is {
			n.attr.Uid = uid
		}
		if gid, is := in.GetGID(); is {
			n.attr.Gid = gid
		}
		if size, is := in.GetSize(); is && int64(size) != n.live.size {
			n.change(change{nil, int64(size)})
		}
		now := time.Now()
		n.attr.SetTimes(nil, nil, &now)
		if at, is := in.GetATime(); is {
			n.attr.SetTimes(&at, nil, nil)
		}
		if at, is := in.GetMTime(); is {
			n.attr.SetTimes(nil, &at, nil)
		}
		return n.tell(&out.Attr)
	})
}

// Makes a child, which the library adds to what programs see.
func (n *node) make(ctx context.Context, name string, mode uint32, target []byte, out *fuse.EntryOut) (inode *fs.Inode, errno syscall.Errno) {
	errno = n.do(func() syscall.Errno {
		caller, _ := fuse.FromContext(ctx)
		child := n.disk.newNode(mode, caller.Uid, caller.Gid)
		child.target = target
		inode = n.NewPersistentInode(ctx, child, fs.StableAttr{Mode: mode & syscall.S_IFMT})
		n.disk.rename(child, func() { n.names[name] = child }, n)
		return child.tell(&out.Attr)
	})
	return
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, errno := n.make(ctx, name, mode&07777|syscall.S_IFREG, nil, out)
	if errno != fs.OK {
		return nil, nil, 0, errno
	}
	opened, fuseFlags, errno := nodeOf(inode).Open(ctx, flags)
	return inode, opened, fuseFlags, errno
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.make(ctx, name, mode&07777|syscall.S_IFDIR, nil, out)
}

func (n *node) Mknod(ctx context.Context, name string, mode, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.make(ctx, name, mode, nil, out)
}

func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.make(ctx, name, 0777|syscall.S_IFLNK, []byte(target), out)
}

func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) { return n.target, n.do(ok) }

func (n *node) Link(_ context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child := target.(*node)
	return child.EmbeddedInode(), n.do(func() syscall.Errno {
		child.attr.Nlink++
		n.disk.rename(child, func() { n.names[name] = child }, n)
		return child.tell(&out.Attr)
	})
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	return n.do(func() syscall.Errno {
		child := nodeOf(n.GetChild(name))
		if len(child.Children()) > 0 {
			return syscall.ENOTEMPTY
		}
		child.attr.Nlink--
		return n.disk.rename(child, func() { delete(n.names, name) }, n)
	})
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno { return n.Unlink(ctx, name) }

func (n *node) Rename(_ context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	const noReplace = 1
	return n.do(func() syscall.Errno {
		if flags&^noReplace != 0 {
			return syscall.EINVAL
		}
		to, child := parent.(*node), nodeOf(n.GetChild(name))
		if there := to.GetChild(newName); there != nil {
			if len(there.Children()) > 0 {
				return syscall.ENOTEMPTY
			}
			nodeOf(there).attr.Nlink--
		}
		return n.disk.rename(child, func() {
			delete(n.names, name)
			to.names[newName] = child
		}, n, to)
	})
}

// The kernel keeps what it has of a file between two programs that open it: all changes come by this mount. Not past its cache (direct I/O): a
// mapping that processes share, as SQLite's -shm, would not be possible.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return &handle{flags&syscall.O_DSYNC != 0}, fuse.FOPEN_KEEP_CACHE, n.do(ok)
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, into []byte, offset int64) (found fuse.ReadResult, errno syscall.Errno) {
	errno = n.do(func() syscall.Errno {
		found = fuse.ReadResultData(n.live.read(into, offset))
		return fs.OK
	})
	return
}

func (n *node) Write(_ context.Context, opened fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	return uint32(len(data)), n.do(func() syscall.Errno {
		n.change(change{bytes.Clone(data), offset})
		if by, is := opened.(*handle); is && by.isSync {
			return n.makeDurable()
		}
		return fs.OK
	})
}

// Space is never short; a hole is not asked for by the programs here.
func (n *node) Allocate(_ context.Context, _ fs.FileHandle, offset, size uint64, mode uint32) syscall.Errno {
	const keepSize = 1
	return n.do(func() syscall.Errno {
		if mode&^keepSize != 0 {
			return syscall.ENOTSUP
		}
		if end := int64(offset + size); mode == 0 && end > n.live.size {
			n.change(change{nil, end})
		}
		return fs.OK
	})
}

// Files and folders.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.do(n.makeDurable)
}

func (n *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return fs.OK }

func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	const plenty = 1 << 24
	*out = fuse.StatfsOut{Bsize: page, Frsize: page, NameLen: 255, Blocks: plenty, Bfree: plenty, Bavail: plenty, Files: plenty, Ffree: plenty}
	return fs.OK
}

// The power is gone: what is durable now is what the disk has.
func (d *disk) cut(root *node, random *rand.Rand) {
	d.isCut = true
	// How much of the unsynced data the kernel has written: nothing, all, or in between.
	likely := []float64{0, 0.2, 0.5, 0.8, 1}[random.Intn(5)]
	isKept := func() bool { return random.Float64() < likely }
	ended := map[*node]bool{}
	for _, each := range d.journal {
		// ext4 has one journal, which every entry ends.
		folders := []*node{nil}
		if d.strict {
			folders = each.folders
		}
		if slices.ContainsFunc(folders, func(folder *node) bool { return ended[folder] }) || !isKept() {
			for _, folder := range folders {
				ended[folder] = true
			}
			continue
		}
		each.apply()
	}
	seen := map[*node]bool{}
	var survive func(*node)
	survive = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, each := range n.pending {
			if (each.data == nil || d.ordered) && !isKept() {
				break
			}
			if d.ordered || each.data == nil {
				each.apply(&n.safe)
			} else {
				each.survive(&n.safe, random, isKept)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			survive(n.names[name])
		}
	}
	survive(root)
}

func (c change) survive(to *image, random *rand.Rand, isKept func() bool) {
	const tornOnce = 4
	if random.Intn(tornOnce) > 0 {
		if isKept() {
			c.apply(to)
		}
		return
	}
	for data, offset := c.data, c.offset; len(data) > 0; {
		length := min(int64(len(data)), sector-offset%sector)
		if isKept() {
			to.write(data[:length], offset)
		}
		data, offset = data[length:], offset+length
	}
}

// Writes what is durable to a folder; a file with several names once.
func (n *node) store(path string, stored map[*node]string) {
	mode := n.attr.Mode & 07777
	if first, ok := stored[n]; ok {
		must(os.Link(first, path))
		return
	}
	stored[n] = path
	switch n.attr.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		must(os.Mkdir(path, 0700))
		for name, child := range n.names {
			child.store(filepath.Join(path, name), stored)
		}
	case syscall.S_IFREG:
		file := try(os.Create(path))
		for number, data := range n.safe.pages {
			try(file.WriteAt(data, number*page))
		}
		must(file.Truncate(n.safe.size))
		must(file.Close())
	case syscall.S_IFLNK:
		must(os.Symlink(string(n.target), path))
		return
	default:
		must(syscall.Mknod(path, n.attr.Mode, 0))
	}
	must(os.Lchown(path, int(n.attr.Uid), int(n.attr.Gid)))
	must(syscall.Chmod(path, mode))
}

// Reads what a folder has, as what is durable.
func (n *node) load(ctx context.Context, path string, loaded map[uint64]*node) {
	for _, each := range try(os.ReadDir(path)) {
		at := filepath.Join(path, each.Name())
		stat := try(each.Info()).Sys().(*syscall.Stat_t)
		child := loaded[stat.Ino]
		if child == nil {
			child = n.disk.newNode(stat.Mode, stat.Uid, stat.Gid)
			loaded[stat.Ino] = child
			n.NewPersistentInode(ctx, child, fs.StableAttr{Mode: stat.Mode & syscall.S_IFMT})
		} else {
			child.attr.Nlink++
		}
		n.names[each.Name()] = child
		n.AddChild(each.Name(), child.EmbeddedInode(), false)
		switch stat.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			child.load(ctx, at, loaded)
		case syscall.S_IFLNK:
			child.target = []byte(try(os.Readlink(at)))
		case syscall.S_IFREG:
			data := try(os.ReadFile(at))
			for offset := 0; offset < len(data); offset += page {
				part := data[offset:min(offset+page, len(data))]
				if len(bytes.Trim(part, "\x00")) > 0 {
					child.safe.write(part, int64(offset))
				}
			}
			child.safe.resize(int64(len(data)))
			child.live = child.safe.clone()
		}
	}
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("power-loss MOUNTPOINT FOLDER SEED [strict] [ordered] [lies]")
	}
	mountPoint, folder, modes := os.Args[1], os.Args[2], os.Args[4:]
	random := rand.New(rand.NewSource(try(strconv.ParseInt(os.Args[3], 10, 64))))
	is := func(mode string) bool { return slices.Contains(modes, mode) }
	d := &disk{strict: is("strict"), ordered: is("ordered"), lies: is("lies")}
	stat := try(os.Stat(folder)).Sys().(*syscall.Stat_t)
	root := d.newNode(stat.Mode, stat.Uid, stat.Gid)
	long := time.Hour
	options := &fs.Options{EntryTimeout: &long, AttrTimeout: &long, NullPermissions: true, FirstAutomaticIno: 2}
	options.OnAdd = func(ctx context.Context) { root.load(ctx, folder, map[uint64]*node{}) }
	// Root alone may let other users in, such as the one that a database runs as.
	options.MountOptions = fuse.MountOptions{
		AllowOther: os.Geteuid() == 0, Options: []string{"default_permissions"}, FsName: "power-loss", DirectMount: true,
		DisableXAttrs: true, ExplicitDataCacheControl: true,
	}
	server := try(fs.Mount(mountPoint, root, options))
	// Control-C reaches all programs of a terminal. This one has to unmount, and ends with the one that gave it its input.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	fmt.Println("mounted")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		d.Lock()
		d.cut(root, random)
		d.Unlock()
		next := folder + ".next"
		must(os.RemoveAll(next))
		root.store(next, map[*node]string{})
		must(os.RemoveAll(folder))
		must(os.Rename(next, folder))
		fmt.Println("cut")
	}
	// Also where a program has still something open there.
	if syscall.Unmount(mountPoint, syscall.MNT_DETACH) != nil {
		must(server.Unmount())
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func try[Result any](result Result, err error) Result {
	must(err)
	return result
}
