import com.github.bingoohuang.westid.WestId;
import io.snowlease.SnowflakeOptions;
import io.snowlease.westid.SnowleaseWorkerIdAssigner;

/** westid's own generator on a leased number: it makes IDs until the lease ends, and the program with it. */
class WestIdNumber {
    public static void main(String[] arguments) throws InterruptedException {
        SnowleaseWorkerIdAssigner assigner = new SnowleaseWorkerIdAssigner(new SnowflakeOptions(), () -> {
            System.err.println("The lease has ended.");
            Runtime.getRuntime().halt(3);
        });
        WestId.configure(assigner.assignWorkerId(WestId.DEFAULT_ID_CONFIG));
        for (;;) {
            System.out.println(WestId.next());
            System.out.flush();
            Thread.sleep(1);
        }
    }
}
